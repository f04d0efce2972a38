-- Silent owners
-- Members that own partitions and commit nothing, while the rest of the group goes on: look for a
-- record that they cannot process, or a thread that hangs.
--
-- Per member: a time of at least `least_ms`, and at least `times` the usual interval of commits
-- of its partitions, in which it owned partitions (except breaks of a minute) and committed none
-- of them, while other members committed in at least `others_share` of the minutes. Partitions
-- without any commit do not count, nor those with nothing to read according to `lag`: no lag
-- before, and no new record after.
--
-- least_ms=600000, times=5.0, others_share=0.5
-- group, member, instance, client_id, host, software
-- from time: Its last commit before, or when it got its partitions.
-- until time: Its next commit, or when it lost them, or the end of the log.
-- silent_ms long: Time between the two.
-- ended text: Ended by a `commit`, by the `loss` of its partitions, or not: `log_end`.
-- partitions long: Partitions that it owned then and that are usually committed.
-- usual_ms long: Usual commit interval of the partition with the shortest.
-- others_minutes long: Minutes in which other members committed.
-- lag long: Records to read in those partitions, as last known; null: unknown.
-- ended_by text: Why its session ended then, if it sent nothing; null: it was alive.
-- session_timeout_ms long: `session.timeout.ms` of such a session.
with places as (
    select "group", topic, topic_partition, max(known_from) as known_from,
        max(read_until) as read_until,
        row_number() over (order by "group", topic, topic_partition) as place
    from commit_minutes group by "group", topic, topic_partition
), seen as (
    select "group", max(known_from) as known_from, max(read_until) as read_until
    from places group by "group"
), owned as (
    select o.*, place, s.known_from as begins, greatest("from", s.known_from) as starts,
        greatest("from", s.known_from, coalesce(until, s.read_until, o.read_until)) as ends
    from ownership as o join seen as s using ("group")
    left join places as p using ("group", topic, topic_partition)
    where is_owned
), mixed as (  -- commits, and changes of owners, which have no last time
    select place, first_time, last_time
    from commit_minutes as c join places as p using ("group", topic, topic_partition)
    union all select place, starts, null from owned where place is not null
    union all select place, ends, null from owned where place is not null
), spaced as (
    select place, first_time, last_time,
        first_time - first_time % 60000 - (lag(first_time - first_time % 60000) over w) as distance,
        coalesce(first_time - (lag(last_time) over w) >= :least_ms, true) as is_first,
        coalesce((lead(first_time) over w) - last_time >= :least_ms
            or (lead(last_time) over w) is null, true) as is_last
    from mixed window w as (partition by place order by first_time)
), usual as (
    select place, floor(percentile_cont(0.5) within group (order by distance)) as usual_ms
    from spaced where last_time is not null group by place having count(distance) >= 2
), few as (  -- rows next to a pause or a change: only these matter
    select place, first_time, last_time, is_last,
        lead(first_time) over (partition by place order by first_time) as next_time
    from spaced where last_time is not null and (is_first or is_last)
), owners as (
    select *, row_number() over (partition by place order by starts, ends) as n from owned
), marks as (
    select place, starts as moment, n, 0 as mark, 0 as busy_until from owners
    union all
    select place, first_time, null, 1, 0 from few
    union all
    select place, last_time, null, 2, case when not is_last then next_time end from few
), placed as (  -- each commit with the latest owner before it
    select place, moment, mark, busy_until, max(n) over (
        partition by place order by moment, mark rows unbounded preceding) as n
    from marks
), committed as (
    select "group", member, moment, case when busy_until <= ends then busy_until end as busy_until
    from placed as p join owners as o on o.place = p.place and o.n = p.n
    where mark > 0 and moment <= ends
), furthest as (
    select "group", member, starts, ends, max(ends) over (
        partition by "group", member order by starts, ends
        rows between unbounded preceding and 1 preceding) as before
    from owned
), numbered as (
    select *, sum(case when starts <= before + 60000 then 0 else 1 end) over (
        partition by "group", member order by starts, ends rows unbounded preceding) as span
    from furthest
), spans as (  -- when a member owned partitions, ignoring breaks of a minute
    select "group", member, min(starts) as starts, max(ends) as ends
    from numbered group by "group", member, span
), points as (
    select "group", member, moment, 1 as is_commit, busy_until, 0 as span_ends from committed
    union all select "group", member, starts, 0, 0, ends from spans
    union all select "group", member, ends, 0, 0, 0 from spans
), times as (
    select "group", member, moment, max(is_commit) as is_commit, max(busy_until) as busy_until,
        max(span_ends) as span_ends
    from points group by "group", member, moment
), pauses as (
    select "group", member, moment as since, lead(moment) over w as until,
        lead(is_commit) over w as is_commit, max(busy_until) over w as busy_until,
        max(span_ends) over w as span_ends
    from times window w as (partition by "group", member order by moment)
), shortest as (
    select "group", member, min(usual_ms) as usual_ms
    from owned as o join usual as u on u.place = o.place group by "group", member
), gaps as (
    select p.*, until - since as silent_ms
    from pauses as p join shortest as s on s."group" = p."group" and s.member = p.member
    where until <= span_ends and coalesce(busy_until <= since, true)
        and until - since >= :least_ms and until - since >= :times * usual_ms
), held as (  -- partitions the member owned then, if usually committed
    select distinct g."group", g.member, since, g.until, topic, topic_partition, usual_ms
    from gaps as g join owned as o on o."group" = g."group" and o.member = g.member
        and o.starts < g.until and o.ends > since
    join usual as u on u.place = o.place
), sampled as (  -- the last sample of the lag before, and the first one after
    select h."group", member, since, h.until, h.topic, h.topic_partition, usual_ms,
        max(case when time <= since then time end) as time_before,
        min(case when time >= h.until then time end) as time_after
    from held as h left join lag as l on l."group" = h."group" and l.topic = h.topic
        and l.topic_partition = h.topic_partition and l.lag is not null
    group by all
), waiting as (
    select s."group", member, since, count(*) as partitions, min(usual_ms) as usual_ms,
        sum(b.lag) as lag
    from sampled as s
    left join lag as b on b."group" = s."group" and b.topic = s.topic
        and b.topic_partition = s.topic_partition and b.time = s.time_before
    left join lag as a on a."group" = s."group" and a.topic = s.topic
        and a.topic_partition = s.topic_partition and a.time = s.time_after
    where not (coalesce(b.lag, 1) = 0 and coalesce(a.end_offset = b.end_offset, true))
    group by s."group", member, since
), meanwhile as (
    select distinct g."group", g.member, since, topic, topic_partition, minute, last_time
    from gaps as g
    join commit_minutes as c on c."group" = g."group" and minute >= since and minute < until
), others as (
    select m."group", m.member, since, count(distinct minute) as others_minutes
    from meanwhile as m join owned as o on o."group" = m."group" and o.topic = m.topic
        and o.topic_partition = m.topic_partition and o.member <> m.member
        and last_time between starts and ends
    group by m."group", m.member, since
), vanished as (
    select *, row_number() over (
        partition by "group", member order by "from" desc nulls last, until desc nulls first
    ) as nth
    from sessions where until is not null and silent_ms > 0
), whom as (
    select "group", member, max(instance) as instance, max(client_id) as client_id,
        max(host) as host, max(software) as software, min(confidence) as confidence,
        max(begins) as known_from, max(case when until is null then ends end) as kept_until
    from owned group by "group", member
)
select g."group", g.member, w.instance, w.client_id, w.host, w.software,
    g.since as "from", g.until, g.silent_ms,
    case when g.is_commit > 0 then 'commit' when g.until = kept_until then 'log_end'
        else 'loss' end as ended,
    p.partitions, p.usual_ms, others_minutes, p.lag, v.ended_by, v.session_timeout_ms,
    'log' as source, least(w.confidence, v.confidence) as confidence, w.known_from
from gaps as g
join waiting as p on p."group" = g."group" and p.member = g.member and p.since = g.since
join others as o on o."group" = g."group" and o.member = g.member and o.since = g.since
join whom as w on w."group" = g."group" and w.member = g.member
left join vanished as v on v."group" = g."group" and v.member = g.member and nth = 1
    and abs(v.until - g.until) <= 60000 and v.silent_ms >= g.silent_ms / 2
where g.silent_ms >= :times * p.usual_ms
    and others_minutes >= :others_share * greatest(1, floor(g.silent_ms / 60000))
order by g."group", g.member, g.since
