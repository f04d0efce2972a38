-- Not stable
-- The share of its time that a group spends in rebalances, and how long nobody read its partitions:
-- each partition-second is a second in which records of one partition waited.
--
-- Per group: the union of the times in which a rebalance was under way, and sums over partitions
-- of the times without an owner (`ownership`), and of those with an owner that was gone: a member
-- from its last request to the end of its session, a static member until it was back. A group is
-- without members from a rebalance that ended `emptied` to the start of the next. Times in which
-- no client ran do not count as unread: `down_ms` is their sum.
--
-- group
-- from time: Start of what is known of the group.
-- until time: End of what was read.
-- not_stable_ms long: Time in which a rebalance was under way.
-- share real: Share of the time, 0 to 1.
-- empty_ms long: Time in which the group had no members.
-- partitions long: Partitions that had an owner at some time.
-- unowned_s real: Partition-seconds without an owner while it had members.
-- unowned_empty_s real: The same while it had no members.
-- unowned_share real: `unowned_s` divided by all partition-seconds with members.
-- unread_s real: Partition-seconds without an owner, or with one that was gone, while another ran;
--   null if no session is known.
-- down_ms long: Time from the first assignment on in which no client ran; null as before.
with seen as (
    select "group", partition, began, began as round_began, generation, null as place,
        known_from, read_from, read_until, source, confidence
    from rounds where began is not null
    union all
    select "group", partition, "from", null, null, case when is_owned then concat(topic, ' ', topic_partition) end,
        known_from, read_from, read_until, source, confidence
    from ownership
), logs as (  -- a quiet group commits on when no event follows
    select partition, max(read_until) as read_until from reach group by partition
), timed as (
    select "group",
        case when min_by(generation, round_began) <= 1 then min(began)
            else least(coalesce(max(known_from), max(s.read_from)), min(began)) end as since,
        greatest(max(s.read_until), max(l.read_until), min(began)) as until,
        count(distinct place) as partitions, max(source) as source,
        min(confidence) as confidence, max(known_from) as known_from
    from seen as s left join logs as l on l.partition = s.partition group by "group"
), followed as (
    select r."group", began, ended, outcome, until,
        coalesce(greatest(began, lead(began) over (
            partition by r."group" order by ended nulls last, began)), until) as next_began
    from rounds as r join timed as t on t."group" = r."group" where began is not null
), back as (  -- when a static member that was replaced had stopped
    select "group", old_member as member, max("from" - away_ms) as gone
    from sessions where old_member <> '' and away_ms > 0 group by "group", old_member
), lived as (
    select s."group", s.member, alive_from as starts, alive_until as ends,
        greatest(alive_from, case when ended_by = 'replaced' then coalesce(b.gone, alive_until)
            when ended_by in ('session_expired', 'seat_expired', 'join_timeout', 'sync_timeout')
                then alive_until - coalesce(silent_ms, 0) else alive_until end) as gone
    from sessions as s
    left join back as b on b."group" = s."group" and b.member = s.member
    where alive_until is not null
), spans as (
    select "group", began as starts, coalesce(ended, until) as ends,
        1 as moving, 0 as empty, 0 as owned, 0 as unowned, 0 as away, 0 as running
    from followed
    union all
    select "group", ended, next_began, 0, 1, 0, 0, 0, 0 from followed
    where outcome = 'emptied' and ended is not null
    union all
    select o."group", o."from", coalesce(o.until, t.until), 0, 0,
        case when is_owned then 1 else 0 end, case when is_owned then 0 else 1 end, 0, 0
    from ownership as o join timed as t on t."group" = o."group"
    union all
    select o."group", greatest(o."from", l.gone),
        least(coalesce(o.until, t.until), l.ends), 0, 0, 0, 0, 1, 0
    from lived as l join ownership as o on o."group" = l."group" and o.member = l.member
    join timed as t on t."group" = l."group"
    where l.ends > l.gone and is_owned
    union all
    select "group", starts, gone, 0, 0, 0, 0, 0, 1 from lived
), steps as (
    select "group", case when step > 0 then starts else ends end as moment,
        sum(step * moving) as moving, sum(step * empty) as empty,
        sum(step * owned) as owned, sum(step * unowned) as unowned,
        sum(step * away) as away, sum(step * running) as running
    from spans cross join (values (1), (-1)) as both_ends(step)
    where ends > starts
    group by "group", case when step > 0 then starts else ends end
), moments as (  -- number of each under way, and duration
    select "group", (lead(moment) over w) - moment as ms,
        sum(moving) over w > 0 as is_moving, sum(empty) over w > 0 as is_empty,
        sum(owned) over w as owned, sum(unowned) over w as unowned,
        sum(away) over w as away, sum(running) over w > 0 as is_running
    from steps window w as (partition by "group" order by moment)
), summed as (
    select "group",
        sum(case when is_moving then ms end) as not_stable_ms,
        sum(case when is_empty then ms end) as empty_ms,
        sum(case when is_empty then 0 else ms * owned end) as owned_ms,
        sum(case when is_empty then 0 else ms * unowned end) as unowned_ms,
        sum(case when is_empty then ms * unowned end) as unowned_empty_ms,
        sum(case when is_running then ms * (unowned + away) end) as unread_ms,
        case when max(case when is_running then 1 end) = 1 then
            sum(case when is_running or owned + unowned = 0 then 0 else ms end) end as down_ms
    from moments group by "group"
)
select t."group", since as "from", until,
    coalesce(not_stable_ms, 0) as not_stable_ms,
    coalesce(not_stable_ms / nullif(until - since, 0), 0) as share,
    coalesce(empty_ms, 0) as empty_ms, partitions, coalesce(unowned_ms, 0) / 1000 as unowned_s,
    coalesce(unowned_empty_ms, 0) / 1000 as unowned_empty_s,
    coalesce(unowned_ms / nullif(owned_ms + unowned_ms, 0), 0) as unowned_share,
    unread_ms / 1000 as unread_s, down_ms,
    source, confidence, known_from
from timed as t left join summed as s on s."group" = t."group"
order by t."group"
