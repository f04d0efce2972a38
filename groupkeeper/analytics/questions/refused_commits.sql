-- Refused commits
-- Commits that came too late, and the rebalance that made them invalid: records since the last good
-- commit were processed again by the next owner.
--
-- Each refused OffsetCommit or TxnOffsetCommit (one row for those stored together), with the
-- rebalance that made it invalid: for a removed member, the last one begun when it was removed;
-- else the last one begun. Evidence is the refusal, then the rebalance. Needs events.
--
-- group, member, instance, client_id, host, software
-- api text: Name of the request.
-- error text: Kafka's name of the error.
-- refused long: Number of refused commits.
-- from time: The first refusal.
-- until time: The last refusal.
-- likely
-- round_started time: Start of the rebalance; null if none was read.
-- generation int: New generation of the rebalance.
-- cause text: Code of its first cause.
-- by text: Client that triggered it: instance id, client id or member id.
-- by_host text: The same: address.
-- after_ms long: From its start to the first refused commit.
-- partition, evidence
with last_sessions as (
    select *, row_number() over (
        partition by "group", member order by "from" desc nulls last, until desc nulls first
    ) as place
    from sessions
), late as (
    select r.*, row_number() over (
            partition by r."group" order by time, r.partition, r."offset") as id,
        least(first, s.until) as invalid_from
    from refusals as r
    left join last_sessions as s on s."group" = r."group" and s.member = r.member and place = 1
        and coalesce(s.ended_by, '') <> 'lost'
    where api in ('OffsetCommit', 'TxnOffsetCommit')
), begun as (
    select *, row_number() over (
        partition by "group" order by began, ended nulls last, "offset") as n
    from rounds where began is not null
), in_order as (
    select "group", began as moment, 0 as is_commit, n, null as id from begun
    union all
    select "group", invalid_from, 1, null, id from late
), found as (
    select "group", id, max(n) over (
        partition by "group" order by moment, is_commit rows unbounded preceding) as n
    from in_order
)
select l."group", l.member, l.instance, l.client_id, l.host, l.software, api, error,
    count as refused, first as "from", time as until, l.likely, began as round_started,
    b.generation, cause,
    coalesce(nullif(by_instance, ''), nullif(by_client_id, ''), by_member) as "by", by_host,
    first - began as after_ms, l.partition,
    case when b."offset" is null then sequence(l."offset", l."offset")
        else sequence(l."offset", b."offset", b."offset" - l."offset") end as evidence,  -- both
    coalesce(b.source, l.source) as source, coalesce(b.confidence, l.confidence) as confidence,
    greatest(l.known_from, b.known_from) as known_from
from late as l
join found as f on f."group" = l."group" and f.id = l.id
left join begun as b on b."group" = f."group" and b.n = f.n
order by l."group", l.id
