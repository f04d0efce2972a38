"""How often groups rebalance, when, why, and what it costs: questions about rows of `rounds`.

A rebalance is one join phase, whatever came of it.
"""

from typing import Final

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TIME, YES, Column
from groupkeeper.analytics.questions.question import (
    CAUSE,
    COST,
    MEMBER,
    PLACE,
    WHY,
    question,
)

RANKED: Final = (
    *CAUSE,
    Column("rank", INT, "1 is the most frequent one."),
    Column("rounds", LONG, "Rebalances that it began."),
    Column("share", REAL, "Of all rebalances of this row's first column, 0 to 1."),
    Column("groups", LONG, "In how many groups."),
    Column("who", TEXT, "Who began the most: instance id or client id; null if nobody did."),
    Column("who_rounds", LONG, "How many of them."),
    *COST,
    Column("from", TIME, "The first."),
    Column("until", TIME, "The last."),
)

REBALANCES: Final = (
    question(
        "rebalance_rate",
        "Rebalance rate",
        "Groups at the top rebalance most: a group that nobody deploys should be near zero.",
        (
            Column("rounds", LONG, "Rebalances, whatever came of them."),
            Column("completed", LONG, "Those with new assignments."),
            Column("from", TIME, "Since when the group was seen."),
            Column("until", TIME, "End of what was read."),
            Column(
                "per_day", REAL, "Rebalances a day; of a shorter time than an hour, as of an hour."
            ),
            Column("busiest_hour", TIME, "Beginning of the hour with the most rebalances."),
            Column("busiest_rounds", LONG, "How many began in it."),
            Column("median_ms", LONG, "Of their durations."),
            Column("longest_ms", LONG, "Of their durations."),
            Column("members", INT, "The most that took part."),
        ),
    ),
    question(
        "timeline",
        "Timeline",
        "Hours with many rebalances, and their cause: peaks at fixed times are deploys or batch"
        " jobs.",
        (
            Column("hour", TIME, "Beginning of the hour in which they began."),
            CAUSE[0],
            Column("rounds", LONG, "Rebalances."),
            Column("generation", INT, "The last generation."),
            *COST,
            Column("moved", LONG, "Partitions that got another owner."),
        ),
    ),
    question(
        "not_stable",
        "Not stable",
        "The share of its time that a group spends in rebalances, and how long partitions had no"
        " owner: each partition-second is a second in which records of one partition waited.",
        (
            Column("from", TIME, "Since when the group was seen."),
            Column("until", TIME, "End of what was read."),
            Column("not_stable_ms", LONG, "Time in which a rebalance was under way."),
            Column("share", REAL, "That part of the time, 0 to 1."),
            Column("empty_ms", LONG, "Time in which the group had no members."),
            Column("partitions", LONG, "Partitions that had an owner at some time."),
            Column("unowned_s", REAL, "Partition-seconds without an owner while it had members."),
            Column("unowned_empty_s", REAL, "The same while it had none."),
            Column("unowned_share", REAL, "`unowned_s` of all partition-seconds with members."),
        ),
    ),
    question(
        "causes",
        "Causes by group",
        "What made each group rebalance: the first rows of a group are what to change first.",
        (*RANKED, *WHY),
    ),
    question(
        "causes_by_software",
        "Causes by client software",
        "Which client library and version the rebalances come from: one version that stands out has"
        " a defect or other defaults.",
        RANKED,
        key=(Column("software", TEXT, "Name and version; null: not known."),),
    ),
    question(
        "causes_by_host",
        "Causes by host",
        "Which machines the rebalances come from: one that stands out is overloaded, or restarts.",
        RANKED,
        key=(Column("host", TEXT, "Address; null: not known."),),
    ),
    question(
        "storms",
        "Storms",
        "Times in which a group rebalanced again and again, and what began most of it.",
        (
            Column("from", TIME, "The first rebalance began."),
            Column("until", TIME, "The last one ended, or began if it did not end."),
            Column("rounds", LONG, "Rebalances."),
            *CAUSE,
            Column("cause_rounds", LONG, "How many had this cause, the most frequent one."),
            Column("member", TEXT, "Who began most of those: its last member id; null: nobody."),
            Column("instance", TEXT, "The same: instance id."),
            Column("client_id", TEXT, "The same: client id."),
            Column("host", TEXT, "The same: address."),
            Column("software", TEXT, "The same: client library."),
            Column("who_rounds", LONG, "How many of them this client began."),
            Column("clients", LONG, "How many clients began those."),
            Column("joined", LONG, "Members that came."),
            Column("removed", LONG, "Members that went."),
            *WHY,
            *COST,
            *PLACE,
        ),
        least=5,
        within_ms=600_000,
    ),
    question(
        "barrier",
        "Who holds the join barrier",
        "All members wait in a rebalance until the last one has joined: these clients were last.",
        (
            *MEMBER[:4],
            Column("last", LONG, "Rebalances in which it was the last of several to join."),
            Column("held", LONG, "Those in which the others waited for it for long."),
            Column("share", REAL, "`held` of the group's rebalances with several members, 0 to 1."),
            Column("held_ms", LONG, "Sum of the times after the one before it, in those."),
            Column("median_ms", LONG, "Of these times."),
            Column("longest_ms", LONG, "Of these times."),
            Column("longest_join_ms", LONG, "The longest of these join phases."),
            Column("from", TIME, "The first of them began."),
            Column("until", TIME, "The last of them began."),
            *PLACE,
        ),
        least_ms=1_000,
        needs_events=True,
    ),
    question(
        "cooperative_or_eager",
        "Cooperative or eager",
        "What one change of members costs: eager groups take every partition away each time.",
        (
            Column("protocol", TEXT, "Elected protocol: the assignor."),
            Column("is_cooperative", YES, "Members kept partitions meanwhile; null: unknown."),
            Column("from", TIME, "The first of them began."),
            Column("until", TIME, "The last of them began."),
            Column("rounds", LONG, "Completed rebalances."),
            Column(
                "changes", LONG, "Those that began with a change, and not as the second of one."
            ),
            Column("rounds_per_change", REAL, "Null without a change."),
            Column("moved", LONG, "Partitions that got another owner; null: not known."),
            Column("moved_share", REAL, "Of the partitions in these rebalances, 0 to 1."),
            Column("median_ms", LONG, "Of their durations."),
            Column("unowned_ms", LONG, "Sum over partitions of the time without an owner."),
            Column("unowned_ms_per_change", REAL, "The same for each change."),
        ),
    ),
)
