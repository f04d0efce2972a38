-- Causes by client software
-- The client libraries that rebalances come from: a frequent version has a defect or other
-- defaults.
--
-- Per library of the triggering client, and first cause: as for groups.
--
-- software text: Name and version; null if unknown.
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
    select *, count(name) over (partition by by_software, cause, likely, name) as name_rounds from named
)
select by_software as software, cause, likely,
    row_number() over (partition by by_software order by count(*) desc, cause, likely nulls first) as rank,
    count(*) as rounds, count(*) / sum(count(*)) over (partition by by_software) as share,
    count(distinct "group") as "groups", mode() within group (order by name) as who,
    max(name_rounds) as who_rounds, sum(duration_ms) as duration_ms,
    sum(unowned_ms) as unowned_ms, min(began) as "from", max(began) as until,
    max(source) as source, min(confidence) as confidence,
    max(max(known_from)) over (partition by by_software) as known_from
from counted group by by_software, cause, likely
order by software, rank
