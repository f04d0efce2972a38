-- Per group and assignor: its completed rebalances. A rebalance whose cause is
-- `member_rejoined` is the second of a cooperative change, not a change of its own.
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
