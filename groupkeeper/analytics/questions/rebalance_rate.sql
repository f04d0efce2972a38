-- Rebalance rate
-- Groups at the top rebalance most: a group that nobody deploys should be near zero.
--
-- Per group: all rebalances of the known time, divided by that time. It begins where the log is
-- complete, or with the rebalance to generation 1.
--
-- group
-- rounds long: Rebalances, whatever their outcome.
-- completed long: Rebalances with new assignments.
-- from time: Start of what is known of the group.
-- until time: End of what was read.
-- per_day real: Rebalances a day; a time shorter than an hour counts as an hour.
-- busiest_hour time: Start of the hour with the most rebalances.
-- busiest_rounds long: Rebalances that began in that hour.
-- median_ms long: Median of their durations.
-- longest_ms long: The longest of their durations.
-- members int: The most members that took part.
with begun as (
    select *, began - began % 3600000 as hour from rounds where began is not null
), hours as (
    select "group", hour, count(*) as rounds,
        row_number() over (partition by "group" order by count(*) desc, hour) as place
    from begun group by "group", hour
), summed as (
    select "group",
        count(*) as rounds, count(*) filter (where outcome = 'completed') as completed,
        min(began) as first_began, min_by(generation, began) as first_generation,
        coalesce(max(known_from), max(read_from)) as seen_from, max(read_until) as seen_until,
        percentile_disc(0.5) within group (order by duration_ms) as median_ms,
        max(duration_ms) as longest_ms, max(members) as members,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from begun group by "group"
), timed as (
    select *, case when first_generation <= 1 then first_began
        else least(seen_from, first_began) end as since
    from summed
)
select "group", t.rounds, completed,
    since as "from", greatest(since, seen_until) as until,
    t.rounds * 86400000 / greatest(seen_until - since, 3600000) as per_day, hour as busiest_hour,
    h.rounds as busiest_rounds, median_ms, longest_ms, members, source, confidence, known_from
from timed as t join hours as h using ("group")
where place = 1
order by "group"
