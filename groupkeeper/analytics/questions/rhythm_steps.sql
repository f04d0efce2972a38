-- Changes of the commit rhythm
-- When a partition began to be committed much more or less often: look for a deploy then.
--
-- Per partition: where each of two successive windows has at least `factor` times the commits of
-- each of the two windows before, or vice versa; the higher ones with at least 20 commits. One
-- window between them may have both rates. Windows begin with the first commit; the last one is
-- incomplete and does not count. The factor leaves room for a real step of 3.
--
-- factor=2.5, window_ms=3600000
-- group, topic, topic_partition
-- at time: Start of the window in which it changed.
-- before_per_minute real: Commits a minute in the two windows before.
-- after_per_minute real: Commits a minute in the two windows after.
-- factor real: Rate after divided by rate before; null without commits before.
with begun as (
    select "group", topic, topic_partition, min(minute) as first_minute,
        max(known_from) as known
    from commit_minutes group by "group", topic, topic_partition
), counted as (
    select c."group", c.topic, c.topic_partition, first_minute, known,
        cast(floor((minute - first_minute) / :window_ms) as bigint) as place,
        sum(commits) as commits
    from commit_minutes as c join begun as b using ("group", topic, topic_partition)
    group by all
), sparse as (
    select *, lag(place) over w as place_before, lead(place) over w as place_after,
        max(place) over (partition by "group", topic, topic_partition) as last_place
    from counted window w as (partition by "group", topic, topic_partition order by place)
), windows as (  -- including windows without commits near others
    select "group", topic, topic_partition, first_minute, known, last_place, place, commits
    from sparse
    union
    select "group", topic, topic_partition, first_minute, known, last_place, place + step, 0
    from sparse cross join (values (-4), (-3), (-2), (-1), (1), (2), (3), (4)) as near(step)
    where (step < 0 and place + step > place_before) or (step > 0 and place + step < place_after)
), ordered as (
    select *, commits as now, lag(commits, 2) over w as before_2, lag(commits) over w as before_1,
        lead(commits) over w as after_1, lead(commits, 2) over w as after_2
    from windows window w as (partition by "group", topic, topic_partition order by place)
), judged as (  -- a step at the start of a window, or inside it: that window then has neither rate
    select *, place between 2 and last_place - 2 and (
            (least(now, after_1) >= :factor * greatest(before_1, before_2)
                and least(now, after_1) >= 20)
            or (:factor * greatest(now, after_1) <= least(before_1, before_2)
                and least(before_1, before_2) >= 20)) as is_sharp,
        place between 2 and last_place - 3 and (
            (least(after_1, after_2) >= :factor * greatest(before_1, before_2)
                and least(after_1, after_2) >= 20)
            or (:factor * greatest(after_1, after_2) <= least(before_1, before_2)
                and least(before_1, before_2) >= 20)) as is_mixed
    from ordered
), compared as (
    select *, coalesce(lag(is_sharp) over w, false) as was_sharp,
        coalesce(lag(is_mixed) over w, false) as was_mixed,
        coalesce(lead(is_sharp) over w, false) as will_be_sharp
    from judged window w as (partition by "group", topic, topic_partition order by place)
), found as (  -- one step may be seen at two windows
    select *, (before_1 + before_2) / 2 as before,
        (after_1 + case when is_sharp then now else after_2 end) / 2 as after
    from compared
    where (is_sharp and not was_sharp)
        or (is_mixed and not is_sharp and not will_be_sharp and not was_sharp and not was_mixed)
)
select "group", topic, topic_partition,
    first_minute + place * :window_ms as "at", before * 60000 / :window_ms as before_per_minute,
    after * 60000 / :window_ms as after_per_minute, after / nullif(before, 0) as factor,
    'log' as source, 1.0 as confidence, known as known_from
from found order by "group", topic, topic_partition, "at"
