"""Answers the members that wait for the end of a phase, `PIECE_MEMBERS` in a step: JoinGroups when
the join phase ends, SyncGroups when the assignments are stored or another rebalance begins.

The state of a large group changes in one step; answering its members takes several. A request that
arrives between two of these steps meets the new state. A member without an answer is treated as if
its answer were on its way: its reply tokens stay parked, and its session does not end. The leader
is answered first: its answer is the longest, and it has to compute the assignments. These are
stored only after all other members have an answer, and with it the new generation.

The next phase does not end before all members have an answer. JoinGroups without one when the next
phase begins count as JoinGroups of that phase, and are answered with the next generation.
"""

from typing import Final

from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import resubscribe
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.liveness import restart_session
from groupkeeper.coordinator.member import Member, metadata_for
from groupkeeper.coordinator.replies import answer_sync, join_reply, sync_reply
from groupkeeper.coordinator.soft_state import AnswerKind, PendingAnswers
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.subscription import SubscribedTopics
from groupkeeper.protocol.embedded import CONSUMER, owned_of
from groupkeeper.protocol.errors import ErrorCode

PIECE_MEMBERS: Final = 100
"""How many members one step answers or makes records for, which takes about a millisecond."""
REMOVED_AT_ONCE: Final = 50
"""How many members one step removes."""


def answer_joined(group: Group, step: Step) -> None:
    """Answer all JoinGroups with the new generation: the join phase is over."""
    members = list(group.members.values())
    is_large = len(members) > PIECE_MEMBERS
    if is_large:
        leader = group.members[group.leader_id or ""]
        members.remove(leader)
        members.insert(0, leader)
    topics = SubscribedTopics() if group.protocol_type == CONSUMER else None
    group.subscription = None
    answers = PendingAnswers(AnswerKind.JOINED, members[::-1], topics=topics, leader_first=is_large)
    _begin(group, answers, step)


def answer_assigned(group: Group, step: Step) -> None:
    """Answer the waiting SyncGroups with the stored assignments."""
    members = list(group.members.values())
    _begin(group, PendingAnswers(AnswerKind.ASSIGNED, members[::-1]), step)


def withdraw_plan(group: Group, error: ErrorCode, step: Step) -> None:
    """End the sync phase: clear all assignments, and refuse the SyncGroups that wait.

    Source: `GroupMetadataManager.resetAndPropagateAssignmentWithError`.
    """
    members = list(group.members.values())
    answers = PendingAnswers(AnswerKind.WITHDRAWN, members[::-1], error, group.pending_sync)
    _begin(group, answers, step)


def _begin(group: Group, answers: PendingAnswers, step: Step) -> None:
    group.answers = answers
    if len(answers.left) <= PIECE_MEMBERS:
        go_on_answering(group, step)
    else:
        step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)


def go_on_answering(group: Group, step: Step) -> bool:
    """Answer the next members. Returns True if none is left; else a timer calls this again."""
    answers, members = group.answers, group.members
    assert answers is not None
    answer = _ANSWER[answers.kind]
    left, most = answers.left, PIECE_MEMBERS
    if answers.leader_first:  # its answer lists all members, and takes a whole step
        answers.leader_first, most = False, 1
    for member in reversed(left[-most:]):
        if members.get(member.member_id) is member:
            answer(group, member, answers, step)
    del left[-most:]
    if left:
        step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
        return False
    group.answers = None
    if answers.kind is AnswerKind.JOINED:
        group.subscription = answers.topics.all() if answers.topics else None
    elif answers.kind is AnswerKind.WITHDRAWN and group.subscription is None:
        resubscribe(group)  # the unfinished answers to JoinGroup read only a part
    return True


def drop_answers(group: Group, step: Step) -> None:
    """Forget the pending answers: no member is left."""
    group.answers = None
    step.deadlines.cancel(Timer(TimerKind.NEXT_PIECE, group.group_id))


def _joined(group: Group, member: Member, answers: PendingAnswers, step: Step) -> None:
    if answers.topics is not None:
        answers.topics.add(metadata_for(group.protocol_name, member.protocols))
    if group.seats and member.member_id in group.seats:
        return
    waited = member.awaiting_join is not None
    if waited:
        reply = join_reply(group, member, member.join_version)
        step.reply(group.unpark_join(member), reply)
        if group.standbys and member.member_id in group.standbys and group.rebalance is not None:
            group.rebalance.withheld |= owned_of(member.metadata(group.protocol_name))
    if member.is_new:
        _is_decided(group, member, step)
    restart_session(group, member, step, waited)


def _is_decided(group: Group, member: Member, step: Step) -> None:
    """End the first join phase of a new member, and its timer."""
    member.is_new = False
    step.deadlines.cancel(Timer(TimerKind.NEW_MEMBER, group.group_id, member.member_id))


def _assigned(group: Group, member: Member, answers: PendingAnswers, step: Step) -> None:
    if member.awaiting_sync is not None:
        step.reply(member.awaiting_sync, sync_reply(group, member))
        member.awaiting_sync = None
        restart_session(group, member, step, waited=True)


def _withdrawn(group: Group, member: Member, answers: PendingAnswers, step: Step) -> None:
    group.withdraw(member)
    # A JoinGroup may still have no answer.
    if member.is_new and member.member_id in answers.decided:
        _is_decided(group, member, step)
    if member.awaiting_sync is not None:
        answer_sync(member, answers.error, step)
        restart_session(group, member, step, waited=True)


_ANSWER: Final = {
    AnswerKind.JOINED: _joined,
    AnswerKind.ASSIGNED: _assigned,
    AnswerKind.WITHDRAWN: _withdrawn,
}
