-- Skew
-- Members with more partitions than their share: they fall behind first.
--
-- Per session of at least `least_ms`: the mean number of partitions that the member owned, and
-- the fair mean, if the members of each moment had shared all owned partitions evenly.
--
-- least_ms=600000
-- group, member, instance, client_id, host, software
-- from time: When it joined, or the start of what was read.
-- until time: When it left, or the end of what was read.
-- member_ms long: Known length of its membership.
-- partitions real: Mean number of partitions that it owned.
-- fair real: Mean number with even shares at all times.
-- ratio real: `partitions` divided by `fair`: 2 is twice its share, 0 is nothing.
-- partition, evidence
with owned as (
    select "group", member, "from" as starts, greatest("from", coalesce(until, read_until)) as ends
    from ownership where is_owned
), had as (
    select "group", member, sum(ends - starts) as had_ms from owned group by "group", member
), sure as (
    select "group", max(source) as source, min(confidence) as confidence,
        max(known_from) as known_from
    from ownership group by "group"
), lives as (
    select * from sessions where alive_until is not null
), spans as (
    select "group", alive_from as starts, alive_until as ends, 1 as members, 0 as partitions
    from lives
    union all
    select "group", starts, ends, 0, 1 from owned
), steps as (
    select "group", case when step > 0 then starts else ends end as moment,
        sum(step * members) as members, sum(step * partitions) as partitions
    from spans cross join (values (1), (-1)) as both_ends(step)
    group by "group", case when step > 0 then starts else ends end
), moments as (  -- a member's share at each time, and for how long
    select "group", moment, case when sum(members) over w > 0 then
        ((lead(moment) over w) - moment) * sum(partitions) over w / sum(members) over w else 0 end as share
    from steps window w as (partition by "group" order by moment)
), shared as (
    select "group", moment, coalesce(sum(share) over (
        partition by "group" order by moment rows between unbounded preceding and 1 preceding), 0
    ) as share
    from moments
), fair as (
    select l.*, late.share - early.share as fair_ms, alive_until - alive_from as member_ms
    from lives as l
    join shared as early on early."group" = l."group" and early.moment = alive_from
    join shared as late on late."group" = l."group" and late.moment = alive_until
    where alive_until - alive_from >= :least_ms and late.share - early.share > 0
)
select f."group", f.member, instance, client_id, host, software,
    alive_from as "from", alive_until as until, member_ms,
    coalesce(had_ms, 0) / member_ms as partitions, fair_ms / member_ms as fair,
    coalesce(had_ms, 0) / fair_ms as ratio, partition, sequence("offset", "offset") as evidence,
    greatest(f.source, s.source) as source, least(f.confidence, s.confidence) as confidence,
    greatest(f.known_from, s.known_from) as known_from
from fair as f
join sure as s on s."group" = f."group"
left join had as h on h."group" = f."group" and h.member = f.member
order by f."group", alive_from, f.member
