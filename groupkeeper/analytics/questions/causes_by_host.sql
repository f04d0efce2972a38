-- Causes by host
-- The machines that rebalances come from: a frequent one is overloaded, or restarts.
--
-- Per address of the triggering client, and first cause: as for groups.
--
-- host text: Address; null if unknown.
-- cause, likely, rank
-- rounds long: Rebalances with this cause.
-- share real: Share of the rebalances with this row's first column, 0 to 1.
-- groups, who, who_rounds, duration_ms, unowned_ms
-- from time: The first rebalance.
-- until time: The last rebalance.
with named as (
    select *, coalesce(nullif(by_instance, ''), nullif(by_client_id, ''), by_member) as name
    from rounds
), counted as (
    select *, count(name) over (partition by by_host, cause, likely, name) as name_rounds from named
)
select by_host as host, cause, likely,
    row_number() over (partition by by_host order by count(*) desc, cause, likely nulls first) as rank,
    count(*) as rounds, count(*) / sum(count(*)) over (partition by by_host) as share,
    count(distinct "group") as "groups", mode() within group (order by name) as who,
    max(name_rounds) as who_rounds, sum(duration_ms) as duration_ms,
    sum(unowned_ms) as unowned_ms, min(began) as "from", max(began) as until,
    max(source) as source, min(confidence) as confidence,
    max(max(known_from)) over (partition by by_host) as known_from
from counted group by by_host, cause, likely
order by host, rank
