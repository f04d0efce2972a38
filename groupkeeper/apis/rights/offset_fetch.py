"""The guard of OffsetFetch: rights on each group, and on the topics whose offsets it tells.

Source: Kafka 4.1, `KafkaApis.fetchOffsetsForGroup`, `fetchAllOffsetsForGroup`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from groupkeeper.apis.offset_fetch import flat_reply, groups_asked
from groupkeeper.apis.rights.client import AskingClient
from groupkeeper.apis.rights.guard import ERRORS, ChangedResponse, Guard, Guarded
from groupkeeper.apis.rights.row_guard import DECISION, as_bulk, numbers_in, taken, visible
from groupkeeper.apis.rights.rows import partitions_with
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import Mapped
from groupkeeper.protocol.messages import offset_fetch
from groupkeeper.topics.slices import Pace, each
from groupkeeper.turns import Slices

GROUPS_SINCE: Final = 8
_DENIED: Final = ERRORS[ResourceKind.GROUP]


@dataclass(slots=True)
class _Asked:
    """One group of a request."""

    group_id: str
    is_allowed: bool
    wants_all: bool = False
    denied: list[Any] = field(default_factory=list)
    """Results of topics that are denied."""


class OffsetFetchGuard(Guard):
    """Answers for groups and topics that are denied, and leaves topics out of lists of all."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._behind = ChangedResponse(self.handler, self.turns)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Slices[Any]:
        """Implements `Handler`."""
        client, version = self.client(caller), caller.api_version
        groups = groups_asked(request, version)
        asked: list[_Asked] = []
        allowed: list[Any] = []
        for group in groups:
            one = yield from self._decided(client, group)
            asked.append(one)
            if one.is_allowed:
                allowed.append(group)
        if version >= GROUPS_SINCE:
            request.groups = allowed
            change = partial(_merged, client, asked)
        else:
            [one] = asked
            if not one.is_allowed:
                refused = offset_fetch.OffsetFetchResponseGroup(error_code=_DENIED)
                return flat_reply(request, version, refused)
            request.topics = groups[0].topics
            change = partial(_merged_flat, client, one)
        return (yield from self._behind.ask(request, caller, reply_to, change))

    def _decided(self, client: AskingClient, group: Any) -> Slices[_Asked]:
        """Decide about a group, and take out of it the topics that are denied."""
        if not client.has(Operation.DESCRIBE, ResourceKind.GROUP, group.group_id):
            yield
            return _Asked(group.group_id, is_allowed=False)
        asked = _Asked(group.group_id, is_allowed=True, wants_all=group.topics is None)
        allowed, pace = [], Pace()
        for topic in taken(group.topics or []):
            if client.has(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name):
                allowed.append(topic)
            else:
                numbers = yield from numbers_in(topic, "partition_indexes", "")
                asked.denied.append(_topic_denied(topic.name, numbers))
            if pace.spent(DECISION):
                yield
        if not asked.wants_all:
            group.topics = allowed
        return asked


def _topic_denied(name: str, numbers: Sequence[int]) -> Any:
    make = partial(offset_fetch.OffsetFetchResponsePartitions, committed_offset=-1)
    partitions = partitions_with(make, ERRORS[ResourceKind.TOPIC], numbers)
    return offset_fetch.OffsetFetchResponseTopics(name=name, partitions=partitions)


def _merged(client: AskingClient, asked: list[_Asked], response: Any) -> Slices[Any]:
    found: Iterator[Any] = iter(response.groups)
    groups, pace = [], Pace()
    for one in asked:
        # As many as were asked for, unless there were too many.
        group = next(found, None) if one.is_allowed else _group(one, _DENIED)
        if group is not None and not group.error_code:
            # A new one: two groups of the request may have the same result.
            topics = yield from _topics(client, one, group.topics)
            group = _group(one, ErrorCode.NONE, topics)
        if group is not None:
            groups.append(group)
        if pace.spent():
            yield
    response.groups = as_bulk(groups)
    return response


def _group(asked: _Asked, error: ErrorCode, topics: Any = ()) -> Any:
    return offset_fetch.OffsetFetchResponseGroup(
        group_id=asked.group_id, error_code=error, topics=topics
    )


def _merged_flat(client: AskingClient, asked: _Asked, response: Any) -> Slices[Any]:
    if not response.error_code:
        response.topics = yield from _topics(client, asked, response.topics)
    return response


def _topics(client: AskingClient, asked: _Asked, topics: Any) -> Slices[Any]:
    """Return the topics of a group's result that the client may see, and those denied."""
    if asked.wants_all:
        return (
            yield from visible(
                topics if isinstance(topics, Mapped) else tuple(topics),
                lambda topic: client.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name),
            )
        )
    if not asked.denied:
        return topics
    return [*(yield from each(topics, lambda topic: topic)), *asked.denied]
