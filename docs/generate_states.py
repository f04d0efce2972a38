"""Writes docs/states.md from the transitions of a group; `--check` only compares."""

import sys
from collections.abc import Iterator
from pathlib import Path

from generated import run

from groupkeeper.coordinator.group import TRANSITIONS, GroupState

PAGE = Path(__file__).with_name("states.md")

HEAD = """\
# States of a group

*Generated from `TRANSITIONS` in `coordinator/group.py` by `make docs`; edit there, and the
descriptions in `docs/generate_states.py`.*

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
[operations.md](operations.md#causes).
"""


def transitions() -> Iterator[tuple[str, str, str]]:
    """From, to, and when."""
    for before, after in TRANSITIONS.items():
        for state in after:
            yield before, state, WHEN[before, state]


def page() -> str:
    arrows = list(transitions())
    used = [f"    {a} --> {b}: {when}\n" for a, b, when in arrows if when is not UNUSED]
    states = [f"| {state} | {MEANING[state]} |\n" for state in GroupState]
    rows = [f"| {a} | {b} | {when} |\n" for a, b, when in arrows]
    parts = [HEAD, *used, "    Dead --> [*]\n```\n", STATES, *states, ARROWS, *rows, FOOT]
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
