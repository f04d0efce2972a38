-- Who holds the join barrier
-- All members wait in a rebalance until the last one has joined: these clients were last.
--
-- Per client that was last to join (instance id, or client id and address): how often it came
-- at least `least_ms` after the member before it. Groups with one member are skipped. Needs
-- events.
--
-- least_ms=1000
-- group, member, instance, client_id, host
-- last long: Rebalances in which it was the last of several to join.
-- held long: Rebalances in which it came at least `least_ms` later.
-- share real: `held` of the group's rebalances with several members, 0 to 1.
-- held_ms long: Sum of these delays.
-- median_ms long: Median of these delays.
-- longest_ms long: The longest of these delays.
-- longest_join_ms long: The longest of these join phases.
-- from time: Start of the first of them.
-- until time: Start of the last of them.
-- partition, evidence
with waited as (
    select *, count(*) over (partition by "group") as group_rounds,
        count(*) over (partition by "group", last_client) as last,
        row_number() over (partition by "group", last_client
            order by ended desc nulls first, started desc nulls last, "offset" desc) as place
    from rounds where held_ms is not null
), summed as (
    select "group", last_client, last,
        count(*) as held, count(*) / max(group_rounds) as share, sum(held_ms) as held_ms,
        percentile_disc(0.5) within group (order by held_ms) as median_ms,
        max(held_ms) as longest_ms, max(join_ms) as longest_join_ms, min(began) as "from",
        max(began) as until, min(partition) as partition,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from waited where held_ms >= :least_ms group by "group", last_client, last
)
select s.*, last_member as member, last_instance as instance, last_client_id as client_id,
    last_host as host
from summed as s join waited as w on w."group" = s."group"
    and w.last_client is not distinct from s.last_client and place = 1
order by s."group", s.last_client
