-- Cooperative or eager
-- What one change of members costs: eager groups take every partition away each time.
--
-- Per group and assignor: its completed rebalances. A rebalance whose cause is
-- `member_rejoined` is the second of a cooperative change, not a change of its own.
--
-- group
-- protocol text: Elected protocol: the assignor.
-- is_cooperative yes: Members kept partitions meanwhile; null: unknown.
-- from time: The first of them began.
-- until time: The last of them began.
-- rounds long: Completed rebalances.
-- changes long: Those that began with a change, and not as the second of one.
-- rounds_per_change real: Null without a change.
-- moved long: Partitions that got another owner; null: not known.
-- moved_share real: Of the partitions in these rebalances, 0 to 1.
-- median_ms long: Of their durations.
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
