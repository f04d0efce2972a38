-- Flapping members
-- Clients that come and go all the time: each change makes the whole group rebalance.
--
-- Per client: at least `least` changes within `within_ms`, for each of its members that ran
-- side by side: one restart of a process with ten consumers makes twenty changes, and is not
-- flapping. One row covers the whole time this lasts. A member ran until its last request.
--
-- least=6, within_ms=600000
-- group, instance, client_id, host, software
-- from time: The first change.
-- until time: The last change.
-- changes long: Joins, departures and replacements.
-- joins long: Number of joins.
-- departures long: How often it left or was removed.
-- replacements long: How often it returned as a static member before its session ended.
-- members long: Number of its member ids.
-- side_by_side long: The most members that ran at one time.
-- ended_by text: The most frequent cause of a departure; null if none.
-- likely
-- median_ms long: Median length of its sessions; null if none ended.
-- silent_ms, away_ms, session_timeout_ms, rebalance_timeout_ms, connection, partition, evidence
with known as (
    select * from sessions where instance <> '' or client_id <> ''
), lives as (
    select "group", client, "from" as moment, 1 as step from known
    where "from" is not null and alive_until is not null
    union all
    select "group", client, greatest("from", until - coalesce(silent_ms, 0)), -1 from known
    where "from" is not null and until is not null
), running as (
    select "group", client, sum(step) over (
        partition by "group", client order by moment, step rows unbounded preceding) as members
    from lives
), widths as (
    select "group", client, greatest(1, max(members)) as side_by_side
    from running group by "group", client
), changes as (
    select *, "from" as moment, case when began_as = 'replaced' then 3 else 2 end as kind from known
    where "from" is not null and coalesce(began_as, '') not in ('unknown', 'loaded')
    union all
    select *, until, 1 from known
    where until is not null and coalesce(ended_by, '') not in ('replaced', 'lost')
), numbered as (
    select c.*, coalesce(side_by_side, 1) as side_by_side,
        row_number() over (
            partition by c."group", c.client order by moment, kind, "from", member) as n
    from changes as c left join widths as w on w."group" = c."group" and w.client = c.client
    where moment >= coalesce(known_from, 0)
), started as (
    select n.*, later.n is not null as is_start,
        max(case when later.n is not null then n.n end) over (
            partition by n."group", n.client order by n.n
            rows between unbounded preceding and 1 preceding) as last_start
    from numbered as n left join numbered as later
        on later."group" = n."group" and later.client = n.client
        and later.n = n.n + :least * n.side_by_side - 1 and later.moment - n.moment <= :within_ms
), flaps as (
    select *, sum(case when n < last_start + :least * side_by_side then 0 else 1 end) over (
            partition by "group", client order by n rows unbounded preceding) as flap
    from started where is_start or n < last_start + :least * side_by_side
), ends as (  -- the most frequent cause of a departure
    select "group", client, flap, ended_by, likely, row_number() over (
        partition by "group", client, flap
        order by ended_by is null, count(*) desc, ended_by, likely nulls last) as place
    from flaps where kind = 1 group by "group", client, flap, ended_by, likely
), latest as (
    select *, row_number() over (partition by "group", client, flap order by n desc) as place
    from flaps
), summed as (
    select "group", client, flap,
        min(moment) as starts, max(moment) as ends, count(*) as changes,
        count(*) filter (where kind = 2) as joins, count(*) filter (where kind = 1) as departures,
        count(*) filter (where kind = 3) as replacements, count(distinct member) as members,
        max(side_by_side) as side_by_side,
        percentile_disc(0.5) within group (
            order by case when kind = 1 then until - "from" end) as median_ms,
        max(silent_ms) as silent_ms, max(away_ms) as away_ms,
        mode() within group (order by session_timeout_ms) as session_timeout_ms,
        mode() within group (order by rebalance_timeout_ms) as rebalance_timeout_ms,
        mode() within group (order by connection) as connection, min(partition) as partition,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from flaps group by "group", client, flap
)
select s.*, starts as "from", ends as until, l.instance, l.client_id, l.host, l.software,
    e.ended_by, e.likely
from summed as s
join latest as l on l."group" = s."group" and l.client = s.client and l.flap = s.flap
    and l.place = 1
left join ends as e on e."group" = s."group" and e.client = s.client and e.flap = s.flap
    and e.place = 1
order by s."group", s.client, starts
