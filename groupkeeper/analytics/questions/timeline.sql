-- Timeline
-- Hours with many rebalances, and their cause: peaks at fixed times are deploys or batch jobs.
--
-- Per group, hour and first cause: the rebalances that began in that hour. If the start of one
-- was not read, its end counts.
--
-- group
-- hour time: Start of the hour.
-- cause
-- rounds long: Number of rebalances.
-- generation int: The last generation.
-- duration_ms, unowned_ms
-- moved long: Partitions that got another owner.
select "group",
    began - began % 3600000 as hour, cause, count(*) as rounds, max(generation) as generation,
    sum(duration_ms) as duration_ms, sum(unowned_ms) as unowned_ms, sum(moved) as moved,
    max(source) as source, min(confidence) as confidence, max(known_from) as known_from
from rounds
where began is not null
group by "group", began - began % 3600000, cause
order by "group", hour, cause
