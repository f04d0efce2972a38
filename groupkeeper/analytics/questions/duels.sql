-- Duels over an instance id
-- Two running clients with the same group.instance.id throw each other out: each needs its own.
--
-- Per instance id: at least `least` replacements within `within_ms`, each at most `each_ms`
-- after the one before, in which the id returns to the address or client id of its former
-- holder; or replacements that the coordinator itself reported as a duel. Restarts never return
-- it, not even successive ones on two hosts.
--
-- least=2, each_ms=30000, within_ms=60000
-- group
-- instance text: The instance id.
-- from time: The first replacement.
-- until time: The last replacement.
-- replacements long: How often it changed hands.
-- hosts texts: Addresses of the clients.
-- clients texts: Their client ids.
-- fenced long: Requests that were refused with FENCED_INSTANCE_ID meanwhile.
-- is_stated yes: The coordinator reported a duel, too.
-- partition, evidence
with owners as (
    select *, row_number() over w as n,
        (host <> '' and host = lag(host, 2) over w and host is distinct from lag(host) over w)
        or (client_id <> '' and client_id = lag(client_id, 2) over w
            and client_id is distinct from lag(client_id) over w) as went_back
    from sessions where instance <> '' and "from" is not null
    window w as (partition by "group", instance order by "from", member, until nulls last)
), replaced as (
    select *, case when "from" - lag("from") over w <= :each_ms then 0 else 1 end as is_first
    from owners where began_as = 'replaced'
    window w as (partition by "group", instance order by n)
), fights as (
    select *, sum(is_first) over (
        partition by "group", instance order by n rows unbounded preceding) as fight
    from replaced
), timed as (
    select *, lead("from", :least - 1) over (
        partition by "group", instance, fight order by n) - "from" <= :within_ms as is_quick
    from fights
), fought as (
    select "group", instance, min(n) as first_n, max(n) as last_n,
        min("from") as starts, max("from") as ends, count(*) as replacements,
        coalesce(bool_or(likely = 'duel'), false) as is_stated, min(partition) as partition,
        slice(array_sort(array_agg("offset")), 1, 20) as evidence,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from timed group by "group", instance, fight
    having count(*) >= :least
        and (bool_or(likely = 'duel') or (bool_or(is_quick) and bool_or(went_back)))
), names as (  -- the first replacement names the former holder
    select f."group", f.instance, starts,
        array_agg(distinct nullif(host, '')) filter (where host <> '') as hosts,
        array_agg(distinct nullif(client_id, '')) filter (where client_id <> '') as clients
    from fought as f join owners as o on o."group" = f."group" and o.instance = f.instance
        and o.n between first_n - 1 and last_n
    group by f."group", f.instance, starts
), fenced as (
    select f."group", f.instance, starts, sum(count) as fenced,
        bool_or(likely = 'duel') as is_stated, max(r.known_from) as known_from
    from fought as f join refusals as r on r."group" = f."group" and r.instance = f.instance
    where error = 'FENCED_INSTANCE_ID' and time >= starts and first <= ends + :each_ms
    group by f."group", f.instance, starts
)
select f."group", f.instance,
    f.starts as "from", ends as until, replacements, slice(array_sort(hosts), 1, 20) as hosts,
    slice(array_sort(clients), 1, 20) as clients, coalesce(fenced, 0) as fenced,
    f.is_stated or coalesce(r.is_stated, false) as is_stated,
    partition, evidence, source, confidence, greatest(f.known_from, r.known_from) as known_from
from fought as f
join names as n on n."group" = f."group" and n.instance = f.instance and n.starts = f.starts
left join fenced as r on r."group" = f."group" and r.instance = f.instance and r.starts = f.starts
where ends >= coalesce(f.known_from, 0)
order by f."group", f.instance, f.starts
