-- Restart gaps
-- How long members are away when they restart: with an instance id and a session timeout above it,
-- a restart needs no rebalance.
--
-- Per group with restarts: clients that came back (question `returns`), without those that were
-- scaled, or were away for minutes for an unknown reason. The proposal is that of `groupkeeper why`
-- for the 95th percentile. Outages are only counted: no session timeout should outlast them.
--
-- outage_ms=600000
-- group
-- restarts long: Returns of clients, except outages.
-- outages long: Returns after more than `outage_ms`.
-- static long: Restarts with an instance id.
-- crashes long: Restarts of clients that had not left.
-- deployed long: Restarts within deployments.
-- scaled long: Returns of clients that were scaled in and out; they are no restarts.
-- unknown long: Returns after minutes that may be either; they are not counted as restarts.
-- median_ms long: Median of the times away.
-- p95_ms long: 95th percentile of the times away.
-- longest_ms long: The longest time away.
-- session_timeout_ms long: `session.timeout.ms` of most of them.
-- within real: Share of the restarts shorter than that timeout, 0 to 1.
-- proposed_ms long: `session.timeout.ms` that absorbs 95 %, with some room.
-- from time: Return of the first of them.
-- until time: Return of the last of them.
-- partition, evidence
with others as (
    select "group", count(*) filter (where kind = 'scaling') as scaled,
        count(*) filter (where kind = 'unknown' and away_ms <= :outage_ms) as unknown,
        count(*) filter (where kind <> 'scaling' and away_ms > :outage_ms) as outages
    from returns group by "group"
), restarts as (
    select *, unix_millis(until) as came_at from returns
    where kind not in ('scaling', 'unknown') and away_ms <= :outage_ms
), summed as (
    select "group",
        count(*) as restarts, count(*) filter (where instance <> '') as static,
        percentile_disc(0.5) within group (order by away_ms) as median_ms,
        percentile_disc(0.95) within group (order by away_ms) as p95_ms,
        max(away_ms) as longest_ms,
        mode() within group (order by session_timeout_ms) as session_timeout_ms,
        count(*) filter (where kind = 'crash') as crashes,
        count(*) filter (where kind = 'deployment') as deployed,
        min(came_at) as "from", max(came_at) as until, min(partition) as partition,
        slice(array_sort(flatten(array_agg(evidence))), 1, 20) as evidence,
        max(source) as source, min(confidence) as confidence,
        max(unix_millis(known_from)) as known_from
    from restarts group by "group"
), shorter as (
    select r."group", count(*) filter (where r.away_ms < s.session_timeout_ms) / count(*) as within
    from restarts as r join summed as s on s."group" = r."group"
    where s.session_timeout_ms is not null group by r."group"
), stepped as (  -- proposals are round numbers
    select *, case when p95_ms < 8000 then 1000 when p95_ms < 96000 then 5000 else 60000 end as step
    from summed
)
select s.*,
    coalesce(outages, 0) as outages, coalesce(scaled, 0) as scaled,
    coalesce(unknown, 0) as unknown, within,
    least(1800000, greatest(1, ceil(p95_ms * 1.25 / step)) * step) as proposed_ms
from stepped as s
left join others as o on o."group" = s."group"
left join shorter as w on w."group" = s."group"
order by s."group"
