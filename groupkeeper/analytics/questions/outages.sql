-- Outages
-- Groups in which nobody works: no member is left, or all go on and none commits while records wait.
--
-- Per group: the times of at least `least_ms` in which no member ran (`gone`), from the last
-- request of the last one, and the time of at least `least_ms` at the end of what was read in which
-- members ran and none committed (`stuck`), unless the oldest record to read is younger. A group
-- that stays without members is left out if nothing waits for it. What waits is known of the end
-- of what was read, of topics that a member subscribed and whose logs were found.
--
-- least_ms=600000
-- group
-- what text: `gone` or `stuck`.
-- from time: The last request, or the last commit.
-- until time: When a member ran again, or the end of what was read.
-- lasted_ms long: Time between the two.
-- is_over yes: Whether a member ran again.
-- members long: Members that ran until then, or that went on.
-- lost long: How many of them were removed without having left.
-- ended_by text: The most frequent cause of their ends; null if they went on.
-- likely
-- partitions long: Partitions with records to read; null if unknown.
-- lag long: Records to read; null if unknown.
-- waiting_ms long: Age of the oldest of them; null if unknown.
-- waited_s real: Partition-seconds in which records waited meanwhile; null if unknown.
-- partition, evidence
with latest as (
    select max(moment) as end_of_logs from (
        select max(read_until) as moment from reach
        union all select max(greatest(end_time, commit_time)) from log_ends
        union all select max(alive_until) from sessions) as moments
), lives as (
    select "group", member, ended_by, likely, partition, "offset", source, confidence, known_from,
        alive_from as starts, case when until is null then end_of_logs
            when ended_by in ('session_expired', 'seat_expired', 'join_timeout', 'sync_timeout')
                then greatest(alive_from, until - coalesce(silent_ms, 0)) else until end as ends,
        until is null as goes_on,
        case when ended_by in ('session_expired', 'seat_expired', 'join_timeout', 'sync_timeout') then 1 else 0
            end as is_lost
    from sessions cross join latest where alive_until is not null
), followed as (
    select *, max(ends) over (
        partition by "group" order by starts, ends
        rows between unbounded preceding and 1 preceding) as before
    from lives
), spans as (
    select *, sum(case when starts <= before then 0 else 1 end) over (
        partition by "group" order by starts, ends rows unbounded preceding) as span
    from followed
), worked as (
    select "group", span, min(starts) as starts, max(ends) as ends, max(partition) as partition,
        max(case when goes_on then 1 else 0 end) as goes_on,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from spans group by "group", span
), gaps as (
    select w.*, coalesce(lead(starts) over (partition by "group" order by starts), end_of_logs)
            as next_starts,
        lead(starts) over (partition by "group" order by starts) is not null as is_over
    from worked as w cross join latest
), gone as (
    select * from gaps where goes_on = 0 and next_starts - ends >= :least_ms
), last_ones as (  -- members that ended shortly before the last one did, with it
    select g."group", g.span, s.ended_by, s.likely, s.is_lost, s."offset"
    from gone as g join spans as s on s."group" = g."group" and s.span = g.span
    where s.ends >= g.ends - :least_ms and coalesce(s.ended_by, '') <> 'replaced'
), reasons as (
    select "group", span, ended_by, likely, row_number() over (partition by "group", span
        order by count(*) desc, ended_by, likely nulls last) as place
    from last_ones group by "group", span, ended_by, likely
), counted as (
    select "group", span, count(*) as members, sum(is_lost) as lost,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence
    from last_ones group by "group", span
), newest as (
    select "group", partition, max("offset") as "offset" from members group by "group", partition
), subscribed as (
    select m."group", m.topics from members as m join newest as n on n."group" = m."group"
        and n.partition = m.partition and n."offset" = m."offset"
), strange as (  -- topics that no member subscribed
    select e."group", topic from (select distinct "group", topic from log_ends) as e
    join subscribed as s on s."group" = e."group" group by e."group", topic
    having count(*) = count(s.topics)
        and max(case when array_contains(s.topics, topic) then 1 else 0 end) = 0
), places as (  -- records of such topics wait for nobody
    select e."group", e.waiting_since, case when s.topic is null then lag else 0 end as lag
    from log_ends as e left join strange as s on s."group" = e."group" and s.topic = e.topic
), waits as (
    select "group", sum(lag) as lag,
        case when count(lag) > 0 then count(*) filter (where lag > 0) end as partitions,
        max(case when lag > 0 then end_of_logs - waiting_since end) as waiting_ms
    from places cross join latest group by "group"
), active as (
    select "group", max(commit_time) as last_time from log_ends group by "group"
), here as (
    select "group", count(*) as members, max(partition) as partition, min(starts) as starts, max(source) as source,
        min(confidence) as confidence, max(known_from) as known_from,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence
    from spans where goes_on group by "group"
), stuck as (
    select a."group", last_time, h.members, h.partition, h.evidence, h.source, h.confidence,
        h.known_from, w.lag, w.partitions, w.waiting_ms, end_of_logs
    from active as a join here as h on h."group" = a."group" cross join latest
    left join waits as w on w."group" = a."group"
    where end_of_logs - greatest(last_time, h.starts) >= :least_ms
        and coalesce(w.lag, 1) > 0 and coalesce(w.waiting_ms, :least_ms) >= :least_ms
), since as (
    select "group", ends as since, next_starts as until from gone where not is_over
    union all select "group", last_time, end_of_logs from stuck
), waited as (
    select s."group", sum(case when lag > 0
        then s.until - least(s.until, greatest(s.since, coalesce(waiting_since, s.since)))
        when lag = 0 then 0 end) / 1000 as waited_s
    from since as s join places as p on p."group" = s."group" group by s."group"
)
select g."group", 'gone' as what, ends as "from", next_starts as until,
    next_starts - ends as lasted_ms, is_over, members, lost, ended_by, likely,
    case when not is_over then w.partitions end as partitions,
    case when not is_over then w.lag end as lag,
    case when not is_over then w.waiting_ms end as waiting_ms,
    case when not is_over then d.waited_s end as waited_s,
    g.partition, evidence, g.source, g.confidence, g.known_from
from gone as g
join counted as c on c."group" = g."group" and c.span = g.span
left join reasons as t on t."group" = g."group" and t.span = g.span and t.place = 1
left join waits as w on w."group" = g."group"
left join waited as d on d."group" = g."group"
where is_over or coalesce(w.lag, 1) > 0
union all
select s."group", 'stuck', last_time, end_of_logs, end_of_logs - last_time, false, members, 0,
    null, null, s.partitions, s.lag, s.waiting_ms, d.waited_s, s.partition, s.evidence,
    s.source, s.confidence, s.known_from
from stuck as s left join waited as d on d."group" = s."group"
order by "group", "from"
