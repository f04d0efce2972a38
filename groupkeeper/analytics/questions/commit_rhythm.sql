-- Commit rhythm
-- How often each partition is committed: an uneven rhythm is a consumer that works in bursts or is
-- interrupted.
--
-- Per partition of a topic: all commits from the first to the last one, minutes without any
-- included. The first and the last minute are incomplete: they count for the sums, not for
-- `variation`.
--
-- factor=2.5, window_ms=3600000
-- group, topic, topic_partition
-- from time: The first commit.
-- until time: The last commit.
-- commits long: Number of commits.
-- per_minute real: Commits a minute between them.
-- variation real: Standard deviation of commits a minute divided by their mean: 0 is even, 1 is
--   random, more is in bursts; null for less than three minutes.
-- longest_gap_ms long: Longest time between two commits; null for a single one.
-- records long: Increase of the committed offset; null if it was removed.
-- per_second real: Records a second between the two; null for one commit.
-- steps long: Changes of the rhythm (`rhythm_steps`).
with bounds as (
    select "group", topic, topic_partition, min(minute) as first_minute,
        max(minute) as last_minute, max(known_from) as known_from,
        row_number() over (order by "group", topic, topic_partition) as place
    from commit_minutes group by "group", topic, topic_partition
), spaced as (
    select place, minute, commits, first_time, last_time, first_offset, last_offset, first_minute,
        last_minute, minute > first_minute and minute < last_minute as is_whole,
        greatest(longest_gap_ms, first_time - lag(last_time) over (
            partition by place order by minute)) as gap_ms
    from commit_minutes as c join bounds as b using ("group", topic, topic_partition)
), summed as (
    select place,
        min(first_time) as starts, max(last_time) as ends, sum(commits) as commits,
        max(gap_ms) as longest_gap_ms,
        max(case when minute = last_minute then last_offset end)
            - max(case when minute = first_minute then first_offset end) as records,
        max(last_minute - first_minute) / 60000 - 1 as minutes,
        sum(case when is_whole then commits end) as whole,
        sum(case when is_whole then commits * commits end) as squares
    from spaced group by place
), changed as (
    select "group", topic, topic_partition, count(*) as steps
    from rhythm_steps group by "group", topic, topic_partition
)
select b."group", b.topic, b.topic_partition,
    starts as "from", ends as until, commits,
    commits * 60000 / greatest(ends - starts, 60000) as per_minute,
    case when minutes >= 3 and whole > 0 then
        sqrt(greatest(0, squares / minutes - power(whole / minutes, 2))) / (whole / minutes)
    end as variation, longest_gap_ms, records,
    records * 1000 / nullif(ends - starts, 0) as per_second, coalesce(steps, 0) as steps,
    'log' as source, 1.0 as confidence, known_from
from summed as s join bounds as b on b.place = s.place
left join changed as c using ("group", topic, topic_partition)
order by b."group", b.topic, b.topic_partition
