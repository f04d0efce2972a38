-- Returns
-- Clients that came back, and whether that was a restart, a deployment, a crash or scaling: only
-- restarts are avoided by a longer session.
--
-- Per session of a client that had been in the group before (`away_ms`). Clients left, or came,
-- together if no more than `together_ms` is between one and the next. `crash`: the client was
-- removed without having left. `scaling`: several left together, stayed away for `scaled_ms` or
-- more, and came back together, while others went on. `deployment`: several clients came back
-- within `deployed_ms` of each other, each after less than `scaled_ms`. `restart`: one came back
-- after less than that. A static member that took its own place again was restarted or deployed,
-- whenever that was. `unknown`: anything else.
--
-- together_ms=30000, scaled_ms=120000, deployed_ms=600000
-- group, member, instance, client_id, host
-- kind text: `restart`, `deployment`, `crash`, `scaling` or `unknown`.
-- from time: Its last request before.
-- until time: When it was back.
-- away_ms long: Time between the two.
-- ended_by text: How its session before ended; null if unknown.
-- together long: Clients that left and came together with it, and itself.
-- stayed long: Members that ran all the time; null if that was not looked for.
-- batch long: Number of the group's clients that left and came together.
-- session_timeout_ms long: `session.timeout.ms`.
-- partition, evidence
with back as (
    select *, "from" as came_at, "from" - away_ms as left_at from sessions
    where away_ms is not null and "from" is not null
), left_steps as (
    select *, case when left_at - (lag(left_at) over w) <= :together_ms then 0 else 1 end as step
    from back window w as (partition by "group" order by left_at, came_at, member)
), left_batches as (
    select *, sum(step) over (partition by "group" order by left_at, came_at, member
        rows unbounded preceding) as left_batch
    from left_steps
), came_steps as (
    select *, case when left_batch = (lag(left_batch) over w)
        and came_at - (lag(came_at) over w) <= :together_ms then 0 else 1 end as came_step
    from left_batches window w as (partition by "group" order by left_batch, came_at, member)
), batches as (
    select *, sum(came_step) over (partition by "group" order by left_batch, came_at, member
        rows unbounded preceding) as batch
    from came_steps
), counted as (
    select *, count(*) over (partition by "group", batch) as together,
        came_at - (lag(came_at) over w) as after_last, (lead(came_at) over w) - came_at as to_next,
        lag(client) over w as last_client, lead(client) over w as next_client
    from batches window w as (partition by "group" order by came_at, member)
), apart as (  -- times in which members may have been scaled in
    select "group", batch, min(left_at) as left_at, max(came_at) as came_at
    from counted where together > 1 and away_ms >= :scaled_ms group by "group", batch
), others as (
    select a."group", batch, count(distinct s.member) as stayed
    from apart as a left join sessions as s on s."group" = a."group"
        and s.alive_from < a.left_at and s.alive_until >= a.came_at
    group by a."group", batch
), before as (  -- the end of the session before: of the same id, instance or client
    select c."group", c.member, c.came_at, max_by(p.ended_by, p.until) as ended_by
    from counted as c join sessions as p on p."group" = c."group" and p.client = c.client
        and p."from" < c.left_at and p.member <> c.member
        -- one that crashed and came back soon is removed after its return
        and p.until between c.left_at - 1000 and c.came_at + 2 * coalesce(p.session_timeout_ms, 0)
    group by c."group", c.member, c.came_at
)
select c."group", c.member, instance, client_id, host,
    case when b.ended_by in ('session_expired', 'seat_expired', 'join_timeout', 'sync_timeout',
            'pending_member_expired') then 'crash'
        when away_ms >= :scaled_ms and together > 1 and stayed > 0
            and coalesce(b.ended_by, 'member_left') = 'member_left' then 'scaling'
        when away_ms >= :scaled_ms and coalesce(b.ended_by, '') <> 'replaced' then 'unknown'
        when after_last <= :deployed_ms and last_client <> c.client
            or to_next <= :deployed_ms and next_client <> c.client then 'deployment'
        else 'restart' end as kind,
    left_at as "from", c.came_at as until, away_ms, b.ended_by, together, stayed, c.batch,
    session_timeout_ms, partition, sequence("offset", "offset") as evidence,
    source, confidence, known_from
from counted as c
left join others as o on o."group" = c."group" and o.batch = c.batch
left join before as b on b."group" = c."group" and b.member = c.member and b.came_at = c.came_at
order by c."group", c.came_at, c.member
