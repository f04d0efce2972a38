"""Writes docs/states.md from the transitions of a group and of a partition's driver; `--check` only
compares.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from generated import run

from groupkeeper.coordinator.group import TRANSITIONS, GroupState
from groupkeeper.groups.driver_life import ANSWERS, PATIENCE_S, UNSERVED, AnswerCodes, DriverState
from groupkeeper.groups.driver_life import TRANSITIONS as DRIVER_TRANSITIONS
from groupkeeper.protocol.errors import ErrorCode

PAGE = Path(__file__).with_name("states.md")

HEAD = """\
# States

*Generated from `TRANSITIONS` in `coordinator/group.py` and the tables in `groups/driver_life.py`
by `make docs`; edit there, and the descriptions in `docs/generate_states.py`.*

## States of a group

A group is in exactly one of five states, under the names that DescribeGroups answers. Only
`Group.become` changes the state, and only along these arrows.

```mermaid
stateDiagram-v2
    [*] --> Empty: first request that needs the group
"""

UNUSED = "permitted, as in Kafka, but not used: only an Empty group is deleted"

WHEN = {
    ("Empty", "PreparingRebalance"): "the first member joins",
    ("Empty", "Dead"): "DeleteGroups, all offsets expired, or never used",
    ("PreparingRebalance", "CompletingRebalance"): "all members have joined, or time is up",
    ("PreparingRebalance", "Empty"): "the join phase ends without members",
    ("PreparingRebalance", "Dead"): UNUSED,
    ("CompletingRebalance", "Stable"): "the leader's SyncGroup brings the assignments",
    ("CompletingRebalance", "PreparingRebalance"): "a member joins, rejoins, leaves or is removed",
    ("CompletingRebalance", "Dead"): UNUSED,
    ("Stable", "PreparingRebalance"): "a member joins, rejoins, leaves or is removed",
    ("Stable", "Dead"): UNUSED,
}
"""What causes each transition. One without a description stops this script."""

MEANING = {
    GroupState.EMPTY: "no members; offsets may be stored, and expire from here on",
    GroupState.PREPARING_REBALANCE: "join phase: every JoinGroup waits until the phase ends",
    GroupState.COMPLETING_REBALANCE: "sync phase: members wait for the leader's assignments",
    GroupState.STABLE: "every member has its assignment, and heartbeats keep it",
    GroupState.DEAD: "deleted; a group that does not exist is described as Dead, too",
}

STATES = """
| state | meaning |
|---|---|
"""

ARROWS = """
| from | to | when |
|---|---|---|
"""

FOOT = """
Join and sync phases are not stored: a partition that is loaded from its log brings its groups back
as they were last written, Stable or Empty. The causes of a rebalance are listed in
[events.md](events.md#causes).
"""

PARTITION = """
## States of a partition

A partition of `__consumer_offsets` is in one of five states, which `/readyz` and the metric
`groupkeeper_partitions` show. Its driver changes them along these arrows.

```mermaid
stateDiagram-v2
    [*] --> loading: the process starts
"""

PARTITION_WHEN = {
    ("loading", "active"): "its log is read to the end",
    ("loading", "closed"): "its log could not be claimed or read",
    ("active", "closed"): "an append failed, a step raised, or its lock was removed",
    ("closed", "active"): "its log is read to the end",
    ("closed", "closed"): "the same again; the pauses before the next try double",
}
"""What causes each transition; those to absent and draining are caused alike in every state."""
INTO = {
    "absent": "an append or a claim finds that another process owns the log",
    "draining": "the process ends",
}

PARTITION_MEANING = {
    DriverState.LOADING: "its log is claimed and read for the first time",
    DriverState.ACTIVE: "it decides",
    DriverState.CLOSED: "it failed, and is claimed and loaded again until that works",
    DriverState.ABSENT: "another process owns it; only a restart claims it again",
    DriverState.DRAINING: "what is under way is written, nothing new is begun",
}

CLOSED_FOR_LONG = f"the same, and its log is damaged, or cannot be loaded for {PATIENCE_S:.0f} s"

PARTITION_STATES = """
| state | meaning | new requests | waiting requests |
|---|---|---|---|
"""

PARTITION_FOOT = """
Where the answer is COORDINATOR_LOAD_IN_PROGRESS, Heartbeat is answered NONE, so that nobody rejoins
because of a restart. While it is NOT_COORDINATOR, FindCoordinator says COORDINATOR_NOT_AVAILABLE,
ListGroups leaves the groups out, and the partition has no leader in Metadata. In draining, requests
that wait are answered when their records are written, and only those that still wait at the end are
refused. Why a partition is in its state: [operations.md](operations.md#health).
"""


def transitions() -> Iterator[tuple[str, str, str]]:
    """From, to, and when."""
    for before, after in TRANSITIONS.items():
        for state in after:
            yield before, state, WHEN[before, state]


def partition_transitions() -> Iterator[tuple[str, str, str]]:
    """The same of a partition's driver."""
    for before, after in DRIVER_TRANSITIONS.items():
        for state in after:
            yield before, state, INTO.get(state) or PARTITION_WHEN[before, state]


def _code(error: ErrorCode, none: str) -> str:
    return error.name if error else none


def _row(state: DriverState, meaning: str, answers: AnswerCodes) -> str:
    new, waiting = _code(answers.new, "decided"), _code(answers.waiting, "-")
    return f"| {state} | {meaning} | {new} | {waiting} |\n"


def partition_page() -> Iterator[str]:
    """The section about partitions."""
    yield PARTITION
    yield from (f"    {a} --> {b}: {when}\n" for a, b, when in partition_transitions())
    yield "    draining --> [*]\n```\n"
    yield PARTITION_STATES
    for state in DriverState:
        yield _row(state, PARTITION_MEANING[state], ANSWERS[state])
        if state is DriverState.CLOSED:
            yield _row(state, CLOSED_FOR_LONG, UNSERVED)
    yield PARTITION_FOOT


def page() -> str:
    arrows = list(transitions())
    used = [f"    {a} --> {b}: {when}\n" for a, b, when in arrows if when is not UNUSED]
    states = [f"| {state} | {MEANING[state]} |\n" for state in GroupState]
    rows = [f"| {a} | {b} | {when} |\n" for a, b, when in arrows]
    parts = [HEAD, *used, "    Dead --> [*]\n```\n", STATES, *states, ARROWS, *rows, FOOT]
    return "".join([*parts, *partition_page()])


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
