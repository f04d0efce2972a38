"""Deletes groups and offsets: on request, with their topic, or because they expired.

A step writes tombstones for a *piece*, a few hundred offsets at most: a group may hold a hundred
thousand. While DeleteGroups deletes a group in several pieces, every request for it is answered
COORDINATOR_LOAD_IN_PROGRESS, so that no client sees half of it. A crash in between leaves the group
with the other half, and the request unanswered. Kafka writes all tombstones in one batch.

Source: `GroupCoordinatorShard.deleteGroups`, `OffsetMetadataManager.onPartitionsDeleted`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import GroupDeleted, OffsetsRemoved
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Deletion, Groups
from groupkeeper.coordinator.rebalance import drop_pending
from groupkeeper.coordinator.records import group_key, offset_key, offset_key_head
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

PIECE_OFFSETS = 400
"""How many offsets and groups one step looks at or removes, in about a millisecond."""

STEP_SHARE = 16
"""The tombstones of one step may take this fraction of the largest message, plus one record."""

Removed: TypeAlias = dict[str, list[int]]
"""Topic to partitions whose offsets were removed."""

PIECE_PAUSE_MS = 5
"""The pause before the next piece, in which records are written and other requests are served."""


@dataclass(slots=True)
class Allowance:
    """The work that one step may still do; its piece ends when the allowance is used up."""

    offsets: int
    until: int
    """Size of the step's records, in bytes, at which the allowance is used up."""

    @classmethod
    def of(cls, step: Step) -> "Allowance":
        """The whole allowance of a step."""
        return cls(PIECE_OFFSETS, step.size + 1 + step.config.message_max_bytes // STEP_SHARE)

    def is_over(self, step: Step) -> bool:
        return self.offsets <= 0 or step.size >= self.until


# -- DeleteGroups --------------------------------------------------------------------------------


def delete_groups(
    groups: Groups, request: DeleteGroupsRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Delete groups without members, with all their offsets. A repeated id is answered once."""
    who = Who.calling(caller, "")
    allowed, deletion = Allowance.of(step), Deletion(reply_to, DeleteGroupsResponse(), who)
    for group_id in dict.fromkeys(request.groups_names):
        group, error = groups.get(group_id), ErrorCode.NONE
        if group_id in groups.deletions:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        elif group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        elif _forget_all(group, allowed, who, step):
            delete_group(groups, group, "request", who, step)
            allowed.offsets -= 1
        else:
            groups.deletions[group_id] = deletion
            deletion.left += 1
            step.deadlines.set(Timer(TimerKind.GROUP_DELETION, group_id), step.now)
        result = DeletableGroupResult(group_id=group_id, error_code=error)
        deletion.response.results.append(result)
    if not deletion.left:
        step.reply(reply_to, deletion.response)


def go_on_deleting(groups: Groups, timer: Timer, step: Step) -> None:
    """Delete the next piece of a group; the last piece of its last group answers the request."""
    group, deletion = groups[timer.group_id], groups.deletions[timer.group_id]
    if not _forget_all(group, Allowance.of(step), deletion.who, step):
        step.deadlines.set(timer, step.now + PIECE_PAUSE_MS)
        return
    del groups.deletions[group.group_id]
    delete_group(groups, group, "request", deletion.who, step)
    deletion.left -= 1
    if not deletion.left:
        step.reply(deletion.reply_to, deletion.response)


def _forget_all(group: Group, allowed: Allowance, who: Who, step: Step) -> bool:
    """Forget all offsets of a group; False when the piece ends before that."""
    removed: Removed = {}
    while group.offsets and not allowed.is_over(step):
        topic, partitions = next(iter(group.offsets.items()))
        removed[topic] = _forget_some(group, topic, partitions, allowed, step)
    note_removed(group, removed, "group_deleted", who, step)
    return not group.offsets


def _forget_some(
    group: Group, topic: str, partitions: Iterable[int], allowed: Allowance, step: Step
) -> list[int]:
    """Forget offsets until the piece ends; returns their partitions."""
    removed = []
    for partition in list(islice(partitions, allowed.offsets)):
        if allowed.is_over(step):
            break
        if forget(group, topic, partition, step):
            removed.append(partition)
        allowed.offsets -= 1
    return removed


def delete_group(groups: Groups, group: Group, why: str, who: Who | None, step: Step) -> None:
    """Delete a group without offsets, and its pending ids. For `why` see `GroupDeleted`."""
    assert not group.offsets
    was_used = group.was_used
    if group.is_stored:
        step.append(group_key(group.group_id), None)
    group.become(GroupState.DEAD, step.wall)
    del groups[group.group_id]
    for member_id in list(group.pending):
        drop_pending(group, member_id, step)
    if was_used or why == "request":  # an operator finds every deletion
        step.note(GroupDeleted(*group.fact_head, why=why, who=who))


# -- offsets -------------------------------------------------------------------------------------


def forget(group: Group, topic: str, partition: int, step: Step) -> bool:
    """Write a tombstone for one offset; False when there was none."""
    stored = group.offsets.get(topic)
    if stored is None or stored.pop(partition, None) is None:
        return False
    if not stored:
        del group.offsets[topic]
    step.append(offset_key(offset_key_head(group.group_id, topic), partition), None)
    return True


def forget_topics(
    groups: Groups, topics: set[str], left: list[str], allowed: Allowance, step: Step
) -> None:
    """Forget the offsets of deleted topics, group by group, until the piece ends.

    `left` has the ids of the groups, the next one last; finished groups are removed from it.
    """
    while left and not allowed.is_over(step):
        group = groups.get(left[-1])
        if group is not None and not _forget_in(group, topics, allowed, step):
            break
        allowed.offsets -= 1
        left.pop()


def _forget_in(group: Group, topics: set[str], allowed: Allowance, step: Step) -> bool:
    """Forget the group's offsets of deleted topics; False when the piece ends before that."""
    deleted = group.offsets.keys() & topics
    removed: Removed = {}
    for topic in sorted(deleted) if len(deleted) > 1 else deleted:  # the order of a set is random
        removed[topic] = _forget_some(group, topic, group.offsets[topic], allowed, step)
        if topic in group.offsets:
            break
    note_removed(group, removed, "topic_deleted", None, step)
    return group.offsets.keys().isdisjoint(topics)


def note_removed(group: Group, removed: Removed, why: str, who: Who | None, step: Step) -> None:
    """Note which offsets were removed, unless none were."""
    count = sum(map(len, removed.values()))
    if count:
        head = group.fact_head
        step.note(OffsetsRemoved(*head, offsets=count, why=why, partitions=removed, who=who))
