-- Lag in seconds
-- The age of the records that a group reads next: the delay that its users see.
--
-- Per partition: the age of the first uncommitted record at the last commit of each minute, and at
-- the end of what was read. Samples with an unknown age are left out. The end of what was read is
-- the latest time in the logs; where the end of the topic's log is unknown, the last sample counts.
--
-- group, topic, topic_partition
-- from time: The first sample.
-- until time: The time of `now_ms` and `now`.
-- samples long: Number of samples, one for each minute with a commit.
-- median_ms long: Lag in time: median of the samples.
-- p95_ms long: 95th percentile of the samples.
-- longest_ms long: The greatest sample.
-- longest_at time: Time of the greatest sample.
-- now_ms long: Lag in time at the end of what was read; null if unknown.
-- now long: Lag in records then.
-- is_subscribed yes: Whether a member subscribed the topic in the last group record with members;
--   null if unknown. Records of other topics wait for nobody, and are no finding.
with known as (
    select *, row_number() over (
            partition by "group", topic, topic_partition order by time desc) as place,
        row_number() over (
            partition by "group", topic, topic_partition order by lag_ms desc, time) as longest
    from lag where lag_ms is not null
), sampled as (
    select "group", topic, topic_partition,
        min(time) as "from", max(time) as until, count(*) as samples,
        percentile_disc(0.5) within group (order by lag_ms) as median_ms,
        percentile_disc(0.95) within group (order by lag_ms) as p95_ms, max(lag_ms) as longest_ms,
        max(case when longest = 1 then time end) as longest_at,
        max(case when place = 1 then lag_ms end) as last_ms,
        max(case when place = 1 then lag end) as last
    from known group by "group", topic, topic_partition
), latest as (
    select max(moment) as now from (
        select max(read_until) as moment from reach
        union all select max(greatest(end_time, commit_time)) from log_ends) as moments
), ended as (
    select "group", topic, topic_partition, lag as now, l.now as until,
        case when lag = 0 then 0 else greatest(0, l.now - waiting_since) end as now_ms
    from log_ends cross join latest as l where lag is not null
), newest as (
    select "group", partition, max("offset") as "offset" from members group by "group", partition
), subscribed as (
    select m."group", m.topics from members as m join newest as n on n."group" = m."group"
        and n.partition = m.partition and n."offset" = m."offset"
), wanted as (
    select t."group", t.topic, max(case when s.topics is null then null
        when array_contains(s.topics, t.topic) then 1 else 0 end) as found,
        count(*) - count(s.topics) as unknown
    from (select distinct "group", topic from sampled) as t
    join subscribed as s on s."group" = t."group" group by t."group", t.topic
)
select "group", topic, topic_partition,
    s."from", case when e.now is null then s.until else e.until end as until, samples,
    median_ms, p95_ms, longest_ms, longest_at,
    case when e.now is null then last_ms else now_ms end as now_ms, coalesce(now, last) as now,
    case when found = 1 then true when found = 0 and unknown = 0 then false end as is_subscribed,
    'log' as source, 1.0 as confidence, null as known_from
from sampled as s left join ended as e using ("group", topic, topic_partition)
left join wanted as w using ("group", topic)
order by "group", topic, topic_partition
