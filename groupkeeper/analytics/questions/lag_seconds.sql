-- Lag in seconds
-- The age of the records that a group reads next: the delay that its users see.
--
-- Per partition: the age of the first uncommitted record at the last commit of each minute.
-- Samples with an unknown age are left out.
--
-- group, topic, topic_partition
-- from time: The first sample.
-- until time: The last sample.
-- samples long: Number of samples, one for each minute with a commit.
-- median_ms long: Lag in time: median of the samples.
-- p95_ms long: 95th percentile of the samples.
-- longest_ms long: The greatest sample.
-- longest_at time: Time of the greatest sample.
-- now_ms long: Lag in time at the last sample.
-- now long: Lag in records at the last sample.
with known as (
    select *, row_number() over (
            partition by "group", topic, topic_partition order by time desc) as place,
        row_number() over (
            partition by "group", topic, topic_partition order by lag_ms desc, time) as longest
    from lag where lag_ms is not null
)
select "group", topic, topic_partition,
    min(time) as "from", max(time) as until, count(*) as samples,
    percentile_disc(0.5) within group (order by lag_ms) as median_ms,
    percentile_disc(0.95) within group (order by lag_ms) as p95_ms, max(lag_ms) as longest_ms,
    max(case when longest = 1 then time end) as longest_at,
    max(case when place = 1 then lag_ms end) as now_ms,
    max(case when place = 1 then lag end) as now,
    'log' as source, 1.0 as confidence, null as known_from
from known group by "group", topic, topic_partition
order by "group", topic, topic_partition
