"""The group APIs: which partition answers, and what is settled before a group is asked.

A request for one group goes to its partition as it is. What is too much for one step, or is for
several groups, is cut into pieces, with turns of others in between. Topics and partitions that do
not exist are set aside from commits and deletions first, as Kafka's front end does; no group is
asked about those.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from groupkeeper.apis.gather import After, Gather
from groupkeeper.apis.groups_request import DeleteSeveral, DescribeSeveral, FetchSeveral, Several
from groupkeeper.apis.offset_fetch import flat_reply, groups_asked
from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.commit import PreparedCommit, commit_refused
from groupkeeper.coordinator.group import GroupState
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.groups.topic_check import PartitionCount, all_known, overlay
from groupkeeper.observe.limit_lines import limit_reached
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupkeeper.turns import Slices

PIECE_PARTITIONS: Final = 500
"""So many partitions of a commit or a deletion are looked at in one go."""
LISTED_GROUPS: Final = 500
"""So many groups are listed in one step."""
PIECE_MEMBERS: Final = 200
"""So many members leave in one go."""
MAX_LEAVING: Final = 100_000
"""How many members one LeaveGroup may name; more are INVALID_REQUEST."""
PIECE_NAMES: Final = 2_000
"""So many assignments, or filters, are looked through in one go."""

T = TypeVar("T")

_log = Logger("groups")


@dataclass(slots=True)
class GroupHandlers:
    """Handlers of the group APIs, over the partitions of this process."""

    group_partitions: GroupPartitions
    partition_count: PartitionCount

    def one_group(self, request: Any, caller: Caller, reply_to: ReplyTo) -> None:
        """JoinGroup and Heartbeat: the group's partition decides."""
        self.group_partitions.of(request.group_id).call(request, caller, reply_to)

    # -- members -------------------------------------------------------------------------------

    def leave_group(
        self, request: LeaveGroupRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None] | None:
        """Very many members leave in pieces, and each piece is a cause of the rebalance."""
        if len(request.members) > MAX_LEAVING:
            limit_reached(_log, "MAX_LEAVING", MAX_LEAVING, "LeaveGroup", caller)
            reply_to.answer(LeaveGroupResponse(error_code=ErrorCode.INVALID_REQUEST))
            return None
        if len(request.members) > PIECE_MEMBERS:
            return self._leave(request, caller, reply_to)
        self.one_group(request, caller, reply_to)
        return None

    def _leave(self, request: LeaveGroupRequest, caller: Caller, reply_to: ReplyTo) -> Slices[None]:
        pieces = list(_cut(request.members, PIECE_MEMBERS))
        replies: list[Any] = [None] * len(pieces)

        def whole() -> LeaveGroupResponse:
            refused = next((reply for reply in replies if reply.error_code), None)
            members = chain.from_iterable(reply.members for reply in replies)
            return refused or LeaveGroupResponse(members=list(members))

        gather = Gather(reply_to, len(pieces), whole)
        for at, members in enumerate(pieces):
            some = LeaveGroupRequest(group_id=request.group_id, members=list(members))
            self.one_group(some, caller, gather.part(partial(replies.__setitem__, at)))
            yield

    def sync_group(
        self, request: SyncGroupRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None] | None:
        """Of very many assignments those for strangers are left out first."""
        if len(request.assignments) > PIECE_NAMES:
            return self._sync(request, caller, reply_to)
        self.one_group(request, caller, reply_to)
        return None

    def _sync(self, request: SyncGroupRequest, caller: Caller, reply_to: ReplyTo) -> Slices[None]:
        group = self.group_partitions.of(request.group_id).peek(request.group_id)
        # Should it change meanwhile, the request is refused: its generation is over.
        members = {} if group is None else group.members
        plan: dict[str, SyncGroupRequestAssignment] = {}
        left = request.assignments
        left.reverse()
        while left:  # and gone, a piece at a time
            some = left[-PIECE_NAMES:]
            del left[-PIECE_NAMES:]
            plan |= {each.member_id: each for each in reversed(some) if each.member_id in members}
            yield
        request.assignments = list(plan.values())
        self.one_group(request, caller, reply_to)

    # -- offsets -------------------------------------------------------------------------------

    def offset_commit(
        self, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None] | None:
        """What does not exist is refused here; with nothing left, the group is not even asked."""
        known = all_known(request.topics, self.partition_count, PIECE_PARTITIONS)
        if known and caller.api_version > 0 and request.topics:
            self.one_group(request, caller, reply_to)
            return None
        return self._commit(request, caller, reply_to)

    def _commit(
        self, request: OffsetCommitRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        driver, deleted = (
            self.group_partitions.of(request.group_id),
            self.group_partitions.deleted_topics,
        )
        began, gone = deleted.now(), set[str]()
        while True:
            commit = driver.prepare(request)
            found = yield from self._add_all(commit, gone)
            gone = deleted.since(began)
            # Each topic once: deletions without end do not keep a commit from its own.
            if not gone or gone.isdisjoint(name for name, _ in commit.assessed.offsets):
                break
        answer = commit.assessed.response
        if not found:
            return answer
        if caller.api_version == 0:  # offsets in ZooKeeper, which is gone
            everything: Any = OffsetCommitRequest(topics=answer.topics)  # type: ignore[arg-type]
            return commit_refused(everything, ErrorCode.UNSUPPORTED_VERSION)
        driver.call(commit, caller, reply_to)
        return None

    def _add_all(self, commit: PreparedCommit, gone: set[str]) -> Slices[int]:
        """Prepare a commit, but for what is gone; how many of its partitions exist."""
        found, left = 0, PIECE_PARTITIONS
        for topic, partitions, continues in _pieces(commit.request.topics):
            exist = None if topic.name in gone else self.partition_count(topic.name)
            if partitions or exist is None:  # of what exists nothing is asked: not mentioned
                some = OffsetCommitRequestTopic(name=topic.name, partitions=partitions)
                found += commit.add(some, exist or 0, continues)
            left -= 1 + len(partitions)
            if left <= 0:
                left = PIECE_PARTITIONS
                yield
        return found

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[None]:
        """As for commits, but the group is asked in any case: its error discards the rest.

        Very many are deleted in pieces; a member that joins meanwhile may save some of them.
        """
        pieces = yield from self._deletions(request)
        replies: list[Any] = [None] * len(pieces)

        def whole() -> OffsetDeleteResponse:
            refused = next((reply for reply in replies if reply.error_code), None)
            return refused or _joined(pieces, replies)

        gather = Gather(reply_to, len(pieces), whole)
        for at, piece in enumerate(pieces):
            take = gather.part(partial(replies.__setitem__, at))
            some = OffsetDeleteRequest(group_id=request.group_id, topics=piece.known)
            self.one_group(some, caller, After(take, partial(_laid_over, piece.refused)))
            yield

    def _deletions(self, request: OffsetDeleteRequest) -> "Slices[list[_Deletions]]":
        pieces, left = [_Deletions(False, [], [])], PIECE_PARTITIONS
        for topic, partitions, continues in _pieces(request.topics):
            exist = self.partition_count(topic.name)
            if left <= 0:
                left = PIECE_PARTITIONS
                pieces.append(_Deletions(continues, [], []))
                yield
            left -= 1 + len(partitions)
            if partitions or exist is None:
                pieces[-1].refused.append(_delete_refused(topic.name, partitions))
            known = [p for p in partitions if 0 <= p.partition_index < (exist or 0)]
            if known:
                some = OffsetDeleteRequestTopic(name=topic.name, partitions=known)
                pieces[-1].known.append(some)
        return pieces

    def offset_fetch(
        self, request: OffsetFetchRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """One group up to v7, several from v8 on (KIP-709); the core knows the newer form."""
        version = caller.api_version
        asking = FetchSeveral(groups_asked(request, version), request.require_stable)
        several = Several(asking, self.group_partitions, caller)
        if version >= 8:
            return several.ask(reply_to)

        def flat(response: OffsetFetchResponse) -> OffsetFetchResponse:
            [group] = response.groups
            return flat_reply(request, version, group)

        return _changed(several.ask(After(reply_to, flat)), flat)

    # -- what operators ask --------------------------------------------------------------------

    def describe_groups(
        self, request: DescribeGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """As many results as ids, in the order asked."""
        asking = DescribeSeveral(request.groups, request.include_authorized_operations)
        return Several(asking, self.group_partitions, caller).ask(reply_to)

    def delete_groups(
        self, request: DeleteGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """An id that comes twice is answered once."""
        return Several(DeleteSeveral(request.groups_names), self.group_partitions, caller).ask(
            reply_to
        )

    def list_groups(
        self, request: ListGroupsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Every partition is asked; one that cannot answer makes the list an error, not short. But
        for those that cannot be loaded, as in Kafka: a client would ask again for ever.

        A group that comes while the list is made may be missing.
        """
        request.states_filter = yield from _filter(request.states_filter, _STATES)
        request.types_filter = yield from _filter(request.types_filter, _TYPES)
        pieces: list[tuple[PartitionDriver, Sequence[str]]] = []
        missing: list[int] = []
        for driver in self.group_partitions:
            if driver.cannot_be_loaded:
                missing.append(driver.index)
                continue
            if driver.absence:  # it may be active when it is asked, and its groups are unknown now
                return ListGroupsResponse(error_code=driver.absence)
            pieces += [(driver, ids) for ids in _cut(driver.group_ids(), LISTED_GROUPS)] or [
                (driver, ())
            ]
            yield
        if missing:
            _log.warning("groups are missing in a list", partitions=missing)
        if not pieces:
            return ListGroupsResponse()
        replies: list[Any] = [None] * len(pieces)

        def whole() -> ListGroupsResponse:
            failed = next((reply for reply in replies if reply.error_code), None)
            groups = chain.from_iterable(reply.groups for reply in replies)
            return failed or ListGroupsResponse(groups=list(groups))

        gather = Gather(reply_to, len(pieces), whole)
        for at, (driver, ids) in enumerate(pieces):
            token = gather.part(partial(replies.__setitem__, at))
            driver.call(ListOfGroups(request, ids), caller, token)
            yield
        return None


_STATES = frozenset(state.lower() for state in GroupState)
_TYPES = frozenset(["classic"])


def _filter(names: list[str], known: frozenset[str]) -> Slices[list[str]]:
    """Of very many names in a filter only what may match; something, if there was something."""
    if len(names) <= PIECE_NAMES:
        return names
    found = set[str]()
    for some in _cut(names, PIECE_NAMES):
        found |= known.intersection(name.strip().lower() for name in some)
        yield
    return sorted(found) or [""]


def _cut(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Pieces of a sequence."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def _pieces(topics: Iterable[Any]) -> Iterator[tuple[Any, list[Any], bool]]:
    """Every topic with its partitions, or with some at a time; True when it goes on with others."""
    for topic in topics:
        if len(topic.partitions) <= PIECE_PARTITIONS:
            yield topic, topic.partitions, False
        else:
            for at, some in enumerate(_cut(topic.partitions, PIECE_PARTITIONS)):
                yield topic, list(some), at > 0


def _changed(slices: Slices[Any], change: Any) -> Slices[Response | None]:
    response = yield from slices
    return None if response is None else change(response)


# -- OffsetDelete in pieces ----------------------------------------------------------------------


@dataclass(slots=True)
class _Deletions:
    """Some of the offsets that an OffsetDelete names."""

    continues: bool
    """Its first topic is the last one of the piece before."""
    known: list[OffsetDeleteRequestTopic]
    refused: list[OffsetDeleteResponseTopic]
    """The answer about all of them, if none existed."""


def _delete_refused(topic: str, partitions: Iterable[Any]) -> OffsetDeleteResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = [
        OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
        for each in partitions
    ]
    return OffsetDeleteResponseTopic(name=topic, partitions=rows)


def _laid_over(
    refused: list[OffsetDeleteResponseTopic], reply: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    return reply if reply.error_code else overlay(OffsetDeleteResponse(topics=refused), reply)


def _joined(pieces: list[_Deletions], replies: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
    whole = OffsetDeleteResponse()
    for piece, reply in zip(pieces, replies, strict=True):
        topics = reply.topics
        if piece.continues:
            whole.topics[-1].partitions += topics[0].partitions
            topics = topics[1:]
        whole.topics += topics
    return whole
