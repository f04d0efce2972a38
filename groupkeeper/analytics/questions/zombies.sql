-- Zombies
-- Clients that continued after the group had removed them: their work was lost or done twice.
-- One refused request informs a client; with more it ignores that it was removed.
--
-- Per member whose session ended: at least `least` requests under its member id that were
-- refused later. Earlier refusals do not count, nor those of members without a session or lost
-- with a coordinator. The member was away from its last good request until the first refused
-- one. Needs events.
--
-- least=1
-- group, member, instance, client_id, host, software
-- removed time: When its session ended.
-- ended_by text: Code of the cause, or `replaced`.
-- likely text: Probable reason for the end; null without evidence.
-- refused long: Requests refused afterwards.
-- refused_commits long: Refused commits of offsets among them.
-- from time: The first refusal.
-- until time: The last refusal.
-- went_on_ms long: From the end of its session to the last refusal.
-- apis texts: Names of the requests.
-- errors texts: Kafka's names of the errors.
-- silent_ms, away_ms, session_timeout_ms, rebalance_timeout_ms, connection, partition, evidence
with last_sessions as (
    select *, row_number() over (
        partition by "group", member order by "from" desc nulls last, until desc nulls first
    ) as place
    from sessions
), ended as (
    select * from last_sessions
    where place = 1 and until is not null and coalesce(ended_by, '') <> 'lost'
), late as (
    select r.*, e.until as removed, row_number() over (
        partition by r."group", r.member order by time desc, r."offset" desc) as place
    from refusals as r join ended as e on e."group" = r."group" and e.member = r.member
    where time > e.until
), summed as (
    select "group", member,
        sum(count) as refused,
        sum(case when api in ('OffsetCommit', 'TxnOffsetCommit') then count else 0 end)
            as refused_commits,
        greatest(min(first), max(removed)) as since, max(time) as until,
        array_sort(array_agg(distinct api)) as apis,
        array_sort(array_agg(distinct error)) as errors, min(partition) as partition,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence, max(known_from) as known_from
    from late group by "group", member
)
select s."group", s.member,
    coalesce(nullif(l.instance, ''), e.instance) as instance,
    coalesce(nullif(l.client_id, ''), e.client_id) as client_id,
    coalesce(nullif(l.host, ''), e.host) as host,
    coalesce(nullif(l.software, ''), e.software) as software,
    e.until as removed, e.ended_by, e.likely, refused, refused_commits, since as "from", s.until,
    s.until - e.until as went_on_ms, apis, errors, silent_ms,
    since - e.until + coalesce(silent_ms, 0) as away_ms,
    session_timeout_ms, rebalance_timeout_ms, connection,
    s.partition, evidence, e.source, e.confidence,
    greatest(s.known_from, e.known_from) as known_from
from summed as s
join late as l on l."group" = s."group" and l.member = s.member and l.place = 1
join ended as e on e."group" = s."group" and e.member = s.member
where refused >= :least
order by s."group", s.member
