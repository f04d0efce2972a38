"""When groups commit, when they stop, how far they are behind; and who wrote their log.

Commits are known by the minute, from the offsets log. What was compacted away cannot be told from
silence: only minutes after `known_from` count.
"""

from typing import Final

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TIME, Column
from groupkeeper.analytics.questions.question import (
    MEMBER,
    PARTITION,
    question,
)

COMMITS: Final = (
    question(
        "commit_silence",
        "Silent owners",
        "Members that own partitions and commit nothing, while the rest of the group goes on: look"
        " for a record that they cannot process, or a thread that hangs.",
        (
            *MEMBER,
            Column("from", TIME, "Its last commit before, or when it got its partitions."),
            Column("until", TIME, "Its next commit, or when it lost them, or the end of the log."),
            Column("silent_ms", LONG, "Between them."),
            Column(
                "ended", TEXT, "By a `commit`, by the `loss` of its partitions, or not: `log_end`."
            ),
            Column(
                "partitions", LONG, "That it owned at that time and that are usually committed."
            ),
            Column("usual_ms", LONG, "Usual distance of the commits of one of them, the shortest."),
            Column("others_minutes", LONG, "Minutes in which others of the group committed."),
            Column(
                "lag", LONG, "Records to read in those partitions, as last known; null: unknown."
            ),
            Column(
                "ended_by", TEXT, "Why its session ended then, if it sent nothing; null: it lived."
            ),
            Column("session_timeout_ms", LONG, "`session.timeout.ms` of such a session."),
        ),
        least_ms=600_000,
        times=5.0,
        others_share=0.5,
    ),
    question(
        "rhythm_steps",
        "Changes of the commit rhythm",
        "When a partition began to be committed much more or less often: look for a deploy then.",
        (
            *PARTITION,
            Column("at", TIME, "Beginning of the window in which it changed."),
            Column("before_per_minute", REAL, "Commits a minute in the two windows before."),
            Column("after_per_minute", REAL, "Commits a minute in the two windows after."),
            Column("factor", REAL, "After by before; null if there were none before."),
        ),
        factor=2.5,
        window_ms=3_600_000,
    ),
    question(
        "commit_rhythm",
        "Commit rhythm",
        "How often each partition is committed: an uneven rhythm is a consumer that works in bursts"
        " or is interrupted.",
        (
            *PARTITION,
            Column("from", TIME, "The first commit."),
            Column("until", TIME, "The last commit."),
            Column("commits", LONG, "How many."),
            Column("per_minute", REAL, "Commits a minute between them."),
            Column(
                "variation",
                REAL,
                "Standard deviation of commits a minute by their mean: 0 is even,"
                " 1 is by chance, more is in bursts; null for less than three minutes.",
            ),
            Column("longest_gap_ms", LONG, "Longest time between two commits; null for one."),
            Column("records", LONG, "By how much the committed offset rose; null: it was removed."),
            Column("per_second", REAL, "Records a second between the two; null for one commit."),
            Column("steps", LONG, "Changes of the rhythm (`rhythm_steps`)."),
        ),
        factor=2.5,
        window_ms=3_600_000,
    ),
    question(
        "lag_seconds",
        "Lag in seconds",
        "How old the records are that a group reads next: the delay that its users see.",
        (
            *PARTITION,
            Column("from", TIME, "The first sample."),
            Column("until", TIME, "The last sample."),
            Column("samples", LONG, "One for each minute with a commit."),
            Column("median_ms", LONG, "Lag in time: median of the samples."),
            Column("p95_ms", LONG, "What 95 % of the samples do not exceed."),
            Column("longest_ms", LONG, "The longest."),
            Column("longest_at", TIME, "When that was."),
            Column("now_ms", LONG, "At the last sample."),
            Column("now", LONG, "The same in records."),
        ),
    ),
    question(
        "split_brain",
        "Split brain",
        "Parts of the log that two coordinators wrote at one time. This must be empty.",
        (
            Column(
                "what",
                TEXT,
                "`overlap`: of offsets; `went_back`: an older epoch wrote after a"
                " newer one; `two_nodes`: one epoch had two writers.",
            ),
            Column("epoch", INT, "Leader epoch of the earlier part."),
            Column("node", INT, "Its node; null if it is not known."),
            Column("other_epoch", INT, "Leader epoch of the later part."),
            Column("other_node", INT, "Its node; null if it is not known."),
            Column("first_offset", LONG, "Where the later part begins."),
            Column("last_offset", LONG, "Where the earlier part ends."),
            Column("from", TIME, "First record of the later part."),
            Column("until", TIME, "Last record of the earlier part."),
        ),
        key=(
            Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
            Column("partition", INT, "Of that log."),
        ),
    ),
)
