-- Members with nothing to do
-- Members that own no partition: more consumers than partitions, or other topics.
--
-- Per session: the times in which the member owned nothing while others in the group owned
-- something, if one such time is at least `least_ms` long. Times in which no member owned
-- anything neither count nor interrupt it.
--
-- least_ms=300000
-- group, member, instance, client_id, host, software
-- from time: Start of its longest time without a partition.
-- until time: End of that time.
-- idle_ms long: Sum of all such times of at least `least_ms`.
-- member_ms long: Known length of its membership.
-- share real: `idle_ms` divided by `member_ms`, 0 to 1.
-- partition, evidence
with owned as (
    select "group", member, "from" as starts, greatest("from", coalesce(until, read_until)) as ends
    from ownership where is_owned
), sure as (
    select "group", max(source) as source, min(confidence) as confidence,
        max(known_from) as known_from
    from ownership group by "group"
), lives as (  -- a partition belongs to the session in which it was assigned, or else to the first
    select *, row_number() over w as n, lead(alive_from) over w as next_from
    from sessions where alive_until is not null
    window w as (partition by "group", member order by alive_from, until nulls last)
), busy as (
    select l."group", l.member, n, least(greatest(starts, alive_from), alive_until) as starts,
        least(greatest(ends, alive_from), alive_until) as ends
    from lives as l join owned as o on o."group" = l."group" and o.member = l.member
        and (starts >= alive_from or n = 1) and (next_from is null or starts < next_from)
    union all
    select "group", member, n, alive_until, alive_until from lives
), followed as (
    select b."group", b.member, b.n, coalesce(max(ends) over (
            partition by b."group", b.member, b.n order by starts, ends
            rows between unbounded preceding and 1 preceding), alive_from) as starts,
        starts as ends
    from busy as b join lives as l on l."group" = b."group" and l.member = b.member and l.n = b.n
), gaps as (
    select * from followed where ends - starts >= :least_ms
), steps as (  -- changes of the number of partitions others own
    select o."group", moment, sum(step) as step
    from (
        select "group", starts as moment, 1 as step from owned
        union all select "group", ends, -1 from owned
        union all select "group", starts, 0 from gaps
        union all select "group", ends, 0 from gaps
    ) as o join (select distinct "group" from gaps) as g on g."group" = o."group"
    group by o."group", moment
), moments as (
    select "group", moment, case when sum(step) over w > 0 then (lead(moment) over w) - moment else 0 end as ms
    from steps window w as (partition by "group" order by moment)
), served as (  -- how long any partition was owned before each time
    select "group", moment, coalesce(sum(ms) over (
        partition by "group" order by moment rows between unbounded preceding and 1 preceding), 0) as ms
    from moments
), idle as (
    select g.*, late.ms - early.ms as ms, row_number() over (
        partition by g."group", member, n order by late.ms - early.ms desc, starts) as place
    from gaps as g
    join served as early on early."group" = g."group" and early.moment = g.starts
    join served as late on late."group" = g."group" and late.moment = g.ends
    where late.ms - early.ms >= :least_ms
), summed as (
    select "group", member, n, sum(ms) as idle_ms,
        max(case when place = 1 then starts end) as starts,
        max(case when place = 1 then ends end) as ends
    from idle group by "group", member, n
)
select l."group", l.member, instance, client_id, host, software,
    starts as "from", ends as until, idle_ms, alive_until - alive_from as member_ms,
    idle_ms / (alive_until - alive_from) as share, partition,
    sequence("offset", "offset") as evidence, greatest(l.source, s.source) as source,
    least(l.confidence, s.confidence) as confidence,
    greatest(l.known_from, s.known_from) as known_from
from summed as i
join lives as l on l."group" = i."group" and l.member = i.member and l.n = i.n
join sure as s on s."group" = l."group"
order by l."group", alive_from, l.member
