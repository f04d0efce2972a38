-- Cooperative or eager
-- What one change of members costs: eager groups take every partition away each time.
--
-- Per group and assignor: its completed rebalances. A rebalance whose cause is
-- `member_rejoined` is the second of a cooperative change, not a change of its own.
--
-- group
-- protocol text: Elected protocol: the assignor.
-- is_cooperative yes: Whether members kept partitions; null if unknown.
-- from time: Start of the first of them.
-- until time: Start of the last of them.
-- rounds long: Completed rebalances.
-- changes long: Rebalances other than the second of a cooperative change.
-- rounds_per_change real: `rounds` per change; null without a change.
-- moved long: Partitions that got another owner; null if unknown.
-- moved_share real: Share of the partitions in these rebalances, 0 to 1.
-- median_ms long: Median of their durations.
-- unowned_ms long: Sum over partitions of the time without an owner.
-- unowned_ms_per_change real: The same for each change.
select "group", protocol, is_cooperative,
    min(began) as "from", max(began) as until, count(*) as rounds,
    count(*) filter (where cause is distinct from 'member_rejoined') as changes,
    count(*) / nullif(count(*) filter (where cause is distinct from 'member_rejoined'), 0) as rounds_per_change,
    sum(moved) as moved,
    sum(case when partitions > 0 then moved end)
        / nullif(sum(case when moved is not null then partitions end), 0) as moved_share,
    percentile_disc(0.5) within group (order by duration_ms) as median_ms,
    sum(unowned_ms) as unowned_ms,
    sum(unowned_ms) / nullif(count(*) filter (where cause is distinct from 'member_rejoined'), 0) as unowned_ms_per_change,
    max(source) as source, min(confidence) as confidence, max(known_from) as known_from
from rounds
where outcome = 'completed' and protocol <> ''
group by "group", protocol, is_cooperative
order by "group", protocol, is_cooperative
