-- Storms
-- Times in which a group rebalanced again and again, and the most frequent cause.
--
-- At least `least` rebalances of a group that began within `within_ms`; a storm lasts as long
-- as this is so. The cause is the most frequent one, the second rebalance of a cooperative
-- change (`member_rejoined`) only if there is no other. The times at the end are of sessions of
-- the client that began most, of those that ended or began in the storm.
--
-- least=5, within_ms=600000
-- group
-- from time: Start of the first rebalance.
-- until time: End of the last rebalance, or its start if it did not end.
-- rounds long: Number of rebalances.
-- cause, likely
-- cause_rounds long: Rebalances with this cause, the most frequent one.
-- member text: Client that began most of those: its last member id; null if none.
-- instance text: The same: instance id.
-- client_id text: The same: client id.
-- host text: The same: address.
-- software text: The same: client library.
-- who_rounds long: How many of them this client began.
-- clients long: Number of clients that began those.
-- joined long: Members that joined.
-- removed long: Members that left or were removed.
-- silent_ms, away_ms, session_timeout_ms, rebalance_timeout_ms, connection, duration_ms,
-- unowned_ms, partition, evidence
with placed as (
    select *, row_number() over w as n,
        (lead(began, :least - 1) over w) - began <= :within_ms as is_start
    from rounds where began is not null
    window w as (partition by "group" order by began, ended nulls last, "offset")
), started as (
    select *, max(case when is_start then n end) over (
        partition by "group" order by n rows between unbounded preceding and 1 preceding
    ) as last_start
    from placed
), stormy as (  -- rounds in a storm; the next storm begins after them
    select *, sum(case when n < last_start + :least then 0 else 1 end) over (
        partition by "group" order by n rows unbounded preceding) as storm
    from started where is_start or n < last_start + :least
), counted as (
    select "group", storm, cause, likely,
        count(*) as cause_rounds, mode() within group (order by by_client) as client,
        count(distinct by_client) as clients,
        row_number() over (partition by "group", storm
            order by cause = 'member_rejoined', count(*) desc, cause, likely nulls last) as place
    from stormy group by "group", storm, cause, likely
), triggered as (  -- rounds of the client that began most of those with the most frequent cause
    select s.*, cause_rounds, clients,
        count(by_client) over (partition by s."group", s.storm) as who_rounds,
        row_number() over (partition by s."group", s.storm order by n desc) as place
    from stormy as s join counted as c on c."group" = s."group" and c.storm = s.storm
        and c.cause is not distinct from s.cause
        and c.likely is not distinct from s.likely
        and s.by_client is not distinct from c.client
    where c.place = 1
), summed as (
    select "group", storm,
        min(began) as starts, max(coalesce(ended, began)) as ends, count(*) as rounds,
        sum(joined) as joined, sum(removed) as removed,
        sum(duration_ms) as duration_ms, sum(unowned_ms) as unowned_ms,
        min(partition) as partition, slice(array_sort(array_agg("offset")), 1, 20) as evidence,
        max(source) as source, min(confidence) as confidence, max(known_from) as known_from
    from stormy group by "group", storm
), whole as (
    select s.*, cause, likely, cause_rounds, by_client, who_rounds, clients, by_member as member,
        by_instance as instance, by_client_id as client_id, by_host as host,
        by_software as software
    from summed as s join triggered as t on t."group" = s."group" and t.storm = s.storm
    where place = 1
), whys as (
    select s."group", storm,
        max(silent_ms) as silent_ms, max(away_ms) as away_ms,
        mode() within group (order by session_timeout_ms) as session_timeout_ms,
        mode() within group (order by rebalance_timeout_ms) as rebalance_timeout_ms,
        mode() within group (order by connection) as connection
    from whole as s join sessions as m on m."group" = s."group" and m.client = s.by_client
    where (until between starts and ends and ended_by = cause)
        or ("from" between starts and ends and away_ms is not null)
    group by s."group", storm
)
select s.*, starts as "from", ends as until, silent_ms, away_ms, session_timeout_ms,
    rebalance_timeout_ms, connection
from whole as s left join whys as w on w."group" = s."group" and w.storm = s.storm
order by s."group", starts
