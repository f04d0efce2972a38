-- Causes by group
-- The causes of each group's rebalances: change those of its first rows first.
--
-- Per group and first cause (with its probable reason): its rebalances, ranked. The times at
-- the end are of sessions that ended by this cause; for members that joined, of those that had
-- been in the group before.
--
-- group, cause, likely, rank
-- rounds long: Rebalances with this cause.
-- share real: Share of the rebalances with this row's first column, 0 to 1.
-- groups, who, who_rounds, duration_ms, unowned_ms
-- from time: The first rebalance.
-- until time: The last rebalance.
-- silent_ms, away_ms, session_timeout_ms, rebalance_timeout_ms, connection
with named as (
    select *, coalesce(nullif(by_instance, ''), nullif(by_client_id, ''), by_member) as name
    from rounds
), counted as (
    select *, count(name) over (partition by "group", cause, likely, name) as name_rounds from named
), ranked as (
    select "group", cause, likely,
        row_number() over (partition by "group" order by count(*) desc, cause, likely nulls first) as rank,
        count(*) as rounds, count(*) / sum(count(*)) over (partition by "group") as share,
        count(distinct "group") as "groups", mode() within group (order by name) as who,
        max(name_rounds) as who_rounds, sum(duration_ms) as duration_ms,
        sum(unowned_ms) as unowned_ms, min(began) as "from", max(began) as until,
        max(source) as source, min(confidence) as confidence,
        max(max(known_from)) over (partition by "group") as known_from
    from counted group by "group", cause, likely
), whys as (
    select r."group", r.rank,
        max(silent_ms) as silent_ms, max(away_ms) as away_ms,
        mode() within group (order by session_timeout_ms) as session_timeout_ms,
        mode() within group (order by rebalance_timeout_ms) as rebalance_timeout_ms,
        mode() within group (order by connection) as connection
    from ranked as r join sessions as s on s."group" = r."group"
    where case when r.cause in ('member_joined', 'static_member_joined') then away_ms is not null
        else ended_by = r.cause and s.likely is not distinct from r.likely end
    group by r."group", r.rank
)
select r.*, silent_ms, away_ms, session_timeout_ms, rebalance_timeout_ms, connection
from ranked as r left join whys as w on w."group" = r."group" and w.rank = r.rank
order by r."group", r.rank
