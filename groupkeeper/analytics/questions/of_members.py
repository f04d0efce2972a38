"""Members that come and go, fight, go on after their end, or have nothing to do.

A session is a row of `sessions`: the life of one member id. A client is what stays the same over
its restarts: its instance id, or without one its client id and address.
"""

from typing import Final

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TEXTS, TIME, YES, Column
from groupkeeper.analytics.questions.question import (
    MEMBER,
    PLACE,
    WHY,
    question,
)

OUTAGE_MS: Final = 600_000
"""Who is away for longer was not restarted: its partitions should have another owner meanwhile."""

MEMBERS: Final = (
    question(
        "flapping",
        "Flapping members",
        "Clients that come and go all the time: each change makes the whole group rebalance.",
        (
            *MEMBER[1:],
            Column("from", TIME, "The first change."),
            Column("until", TIME, "The last one."),
            Column("changes", LONG, "Joins, departures and replacements."),
            Column("joins", LONG, "It joined."),
            Column("departures", LONG, "It left, or was removed."),
            Column("replacements", LONG, "It came back as a static member that was still there."),
            Column("members", LONG, "Under how many member ids."),
            Column("side_by_side", LONG, "The most that ran at one time."),
            Column("ended_by", TEXT, "The most frequent cause of a departure; null: none."),
            Column("likely", TEXT, "What probably is behind it; null without evidence."),
            Column("median_ms", LONG, "Length of its sessions; null: none ended."),
            *WHY,
            *PLACE,
        ),
        least=6,
        within_ms=600_000,
    ),
    question(
        "zombies",
        "Zombies",
        "Clients that went on after the group had removed them: what they did then was lost or done"
        " twice. One refused request tells a client that it is out; more say that it does not"
        " listen.",
        (
            *MEMBER,
            Column("removed", TIME, "When its session ended."),
            Column("ended_by", TEXT, "Code of the cause, or `replaced`."),
            Column("likely", TEXT, "What probably is behind its end; null without evidence."),
            Column("refused", LONG, "Requests that were refused afterwards."),
            Column("refused_commits", LONG, "Those that were to commit offsets."),
            Column("from", TIME, "The first one."),
            Column("until", TIME, "The last one."),
            Column("went_on_ms", LONG, "From the end of its session to the last one."),
            Column("apis", TEXTS, "Names of the requests."),
            Column("errors", TEXTS, "Kafka's names of the errors."),
            *WHY,
            *PLACE,
        ),
        least=1,
        needs_events=True,
    ),
    question(
        "duels",
        "Duels over an instance id",
        "Two running clients with the same group.instance.id throw each other out: each needs its"
        " own.",
        (
            Column("instance", TEXT, "The instance id."),
            Column("from", TIME, "The first replacement."),
            Column("until", TIME, "The last one."),
            Column("replacements", LONG, "How often it changed hands."),
            Column("hosts", TEXTS, "Addresses of the clients."),
            Column("clients", TEXTS, "Their client ids."),
            Column("fenced", LONG, "Requests that were refused with FENCED_INSTANCE_ID meanwhile."),
            Column("is_stated", YES, "The coordinator saw it as a duel, too."),
            *PLACE,
        ),
        least=2,
        each_ms=30_000,
        within_ms=60_000,
    ),
    question(
        "refused_commits",
        "Refused commits",
        "Commits that came too late, and the rebalance that made them invalid: records since the"
        " last good commit were processed again by the next owner.",
        (
            *MEMBER,
            Column("api", TEXT, "Name of the request."),
            Column("error", TEXT, "Kafka's name of the error."),
            Column("refused", LONG, "How many."),
            Column("from", TIME, "The first one."),
            Column("until", TIME, "The last one."),
            Column("likely", TEXT, "What probably is behind it; null without evidence."),
            Column("round_started", TIME, "The rebalance began; null if none was read."),
            Column("generation", INT, "Its new generation."),
            Column("cause", TEXT, "Code of its first cause."),
            Column("by", TEXT, "Who began it: instance id, client id or member id."),
            Column("by_host", TEXT, "The same: address."),
            Column("after_ms", LONG, "From its beginning to the first refused commit."),
            *PLACE,
        ),
        needs_events=True,
    ),
    question(
        "idle_members",
        "Members with nothing to do",
        "Members that own no partition: more consumers than partitions, or other topics.",
        (
            *MEMBER,
            Column("from", TIME, "Beginning of its longest time without a partition."),
            Column("until", TIME, "End of that time."),
            Column("idle_ms", LONG, "All such times of at least `least_ms`."),
            Column("member_ms", LONG, "How long it was a member, as far as it was read."),
            Column("share", REAL, "`idle_ms` of that, 0 to 1."),
            *PLACE,
        ),
        least_ms=300_000,
    ),
    question(
        "skew",
        "Skew",
        "Members with more partitions than their share: they fall behind first.",
        (
            *MEMBER,
            Column("from", TIME, "When it joined, as far as it was read."),
            Column("until", TIME, "When it was gone, or the end of what was read."),
            Column("member_ms", LONG, "How long it was a member, as far as it was read."),
            Column("partitions", REAL, "That it owned, as a mean over this time."),
            Column("fair", REAL, "That it had owned if members had shared alike at all times."),
            Column("ratio", REAL, "`partitions` to `fair`: 2 is twice its share, 0 is nothing."),
            *PLACE,
        ),
        least_ms=600_000,
    ),
    question(
        "restart_gaps",
        "Restart gaps",
        "How long members are away when they restart: with an instance id and a session timeout"
        " above it, a restart needs no rebalance.",
        (
            Column("restarts", LONG, "Clients that came back, but for outages."),
            Column("outages", LONG, "Clients that were away for longer than `outage_ms`."),
            Column("static", LONG, "Restarts with an instance id."),
            Column("median_ms", LONG, "How long they were away: median."),
            Column("p95_ms", LONG, "The least time that 95 % did not exceed."),
            Column("longest_ms", LONG, "The longest."),
            Column("session_timeout_ms", LONG, "`session.timeout.ms` of most of them."),
            Column("within", REAL, "Share of the restarts that were shorter than that, 0 to 1."),
            Column("proposed_ms", LONG, "`session.timeout.ms` that absorbs 95 %, with some room."),
            Column("from", TIME, "The first of them was back."),
            Column("until", TIME, "The last one was back."),
            *PLACE,
        ),
        outage_ms=OUTAGE_MS,
    ),
)
