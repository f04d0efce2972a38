-- Split brain
-- Parts of the log that two coordinators wrote at the same time. This must be empty.
--
-- Per partition of the log: ranges of offsets with one writer each, compared with the
-- earlier one that reaches furthest. A leader epoch has one node, and epochs only rise in a log.
--
-- log text: `__consumer_offsets` or `__group_events`.
-- partition int: Partition of that log.
-- what text: `overlap` of offsets; `went_back`: an older epoch wrote after a newer one;
--   `two_nodes`: one epoch had two writers.
-- epoch int: Leader epoch of the earlier part.
-- node int: Node of the earlier part; null if unknown.
-- other_epoch int: Leader epoch of the later part.
-- other_node int: Node of the later part; null if unknown.
-- first_offset long: First offset of the later part.
-- last_offset long: Last offset of the earlier part.
-- from time: First record of the later part.
-- until time: Last record of the earlier part.
with numbered as (
    select *, row_number() over w as n,
        last_offset > coalesce(max(last_offset) over (
            partition by log, partition order by first_offset, epoch, last_offset
            rows between unbounded preceding and 1 preceding), -1) as is_furthest
    from epochs window w as (partition by log, partition order by first_offset, epoch, last_offset)
), followed as (
    select *, max(case when is_furthest then n end) over (
        partition by log, partition order by n rows between unbounded preceding and 1 preceding
    ) as before_n
    from numbered
), compared as (
    select a.log, a.partition, b.epoch, b.node,
        case when a.epoch = b.epoch and a.node <> b.node then 'two_nodes'
            when a.first_offset <= b.last_offset then 'overlap'
            when a.epoch < b.epoch then 'went_back' end as what,
        a.epoch as other_epoch, a.node as other_node, a.first_offset, b.last_offset, a."from",
        b.until, 'log' as source, 1.0 as confidence, null as known_from
    from followed as a join followed as b
        on b.log = a.log and b.partition = a.partition and b.n = a.before_n
)
select * from compared where what is not null order by log, partition, first_offset
