"""Effects that answer the matched entries of a request with errors, stale data or wrong data.

As in Kafka, the error is at the response level that belongs to the rule's conditions (whole
response, group, topic or partition). Matched entries are not processed, all others are.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.find_coordinator import KEY_TYPE_GROUP
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.testing.faults.entries import Make, WantedSplit, blank
from groupkeeper.testing.faults.levels import Level, Named
from groupkeeper.testing.faults.rules import Effect, Hit, Rule
from groupkeeper.testing.wire.tap import Answer

GROUP_APIS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""APIs that are served by the group coordinator."""

_OF_THE_WHOLE: Final[Mapping[int, frozenset[ErrorCode]]] = {
    ApiKey.FETCH: frozenset(
        {
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        }
    ),
    ApiKey.METADATA: frozenset({ErrorCode.REBOOTSTRAP_REQUIRED}),
}
"""APIs whose top-level error code is for these errors only; other errors are per row."""

_MESSAGE: Final = "by a fault rule of the test"


@dataclass(repr=False)
class Error(Effect):
    """Respond with one of Kafka's errors, such as `"NOT_COORDINATOR"`.

    The error is at the level of the rule's conditions: in an OffsetFetch response it is that of the
    group, or of a partition if the rule has a topic or partition. Matched entries are not
    processed; all others are, in the same response. For a Produce with acks=0, which has no
    response, the connection is closed. Raises WrongArgument.
    """

    code: str

    @property
    def error_code(self) -> ErrorCode:
        return ErrorCode[self.code]

    def concerns(self, hit: Hit) -> bool:
        return _split(hit, self.error_code).is_hit

    def apply(self, hit: Hit) -> None:
        answer_with_error(hit, self.error_code)


def _split(hit: Hit, code: ErrorCode) -> WantedSplit:
    top = hit.key not in _OF_THE_WHOLE or code in _OF_THE_WHOLE[hit.key]
    return WantedSplit(hit.root, hit.version, hit.wanted, hit.rule.bench.topics_by_id, top=top)


def answer_with_error(hit: Hit, code: ErrorCode) -> None:
    """Respond with an error to the entries that the rule matches."""

    def make(level: Level, names: Named, source: Any) -> Any:
        row = blank(level, names, source)
        row.error_code = code
        if "error_message" in level.fields:
            row.error_message = _MESSAGE
        return row

    answer_with(hit, _split(hit, code), make)


def answer_with(hit: Hit, split: WantedSplit, make: Make) -> None:
    """Pass unmatched entries to the server, and add rows for matched ones to its response."""
    exchange, rest = hit.exchange, split.rest()
    if rest is None and hit.key == ApiKey.METADATA and not split.is_whole:
        # The server fills in brokers and controller. In version 0, no topics means all topics.
        rest = copy(exchange.request)
        rest.topics = []
        exchange.caller = replace(exchange.caller, api_version=max(hit.version, 1))
    unanswered = hit.key == ApiKey.PRODUCE and not exchange.request.acks

    def merged(answer: Answer) -> Answer:
        hit.count()
        if unanswered:  # as in Kafka, which has no other way to report an error to the producer
            exchange.call.sender.close()
            return None
        return split.merged(answer, make)

    exchange.on_answer(merged)
    if rest is None:
        exchange.answer(None)
        return
    if hit.key == ApiKey.FETCH and split.has_chosen:  # a response with an error does not wait
        rest = copy(rest)
        rest.max_wait_ms = 0
    exchange.request = rest
    hit.proceed()


@dataclass(repr=False)
class Loading(Effect):
    """Respond like a coordinator that is still loading, until `seconds` after the rule was made, by
    the broker's clock: COORDINATOR_LOAD_IN_PROGRESS, but no error for heartbeats.
    """

    seconds: float
    until_ms: int = field(default=0, init=False, repr=False)
    apis = GROUP_APIS

    def arm(self, rule: Rule) -> None:
        self.until_ms = rule.bench.time.now() + int(self.seconds * 1000)

    def concerns(self, hit: Hit) -> bool:
        return hit.rule.bench.time.now() < self.until_ms

    def apply(self, hit: Hit) -> None:
        if hit.key == ApiKey.HEARTBEAT:  # as in Kafka, so that members do not rejoin
            hit.count()
            hit.exchange.answer(HeartbeatResponse())
        else:
            answer_with_error(hit, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(repr=False)
class WrongCoordinator(Effect):
    """Return another node from FindCoordinator, and NOT_COORDINATOR for group requests. By default
    the node has an unused id and this broker's address.
    """

    node_id: int | None = None
    host: str | None = None
    port: int | None = None
    apis = GROUP_APIS | {ApiKey.FIND_COORDINATOR}

    def concerns(self, hit: Hit) -> bool:
        return bool(getattr(hit.exchange.request, "key_type", KEY_TYPE_GROUP) == KEY_TYPE_GROUP)

    def apply(self, hit: Hit) -> None:
        code = ErrorCode.NOT_COORDINATOR
        if hit.key != ApiKey.FIND_COORDINATOR:
            answer_with_error(hit, code)
            return
        cluster = hit.rule.bench.cluster
        own_host, own_port = cluster.address(cluster.up[0])
        node_id = cluster.size if self.node_id is None else self.node_id

        def make(level: Level, names: Named, source: Any) -> Any:
            row = blank(level, names, source)
            row.node_id = node_id
            row.host = self.host or own_host
            row.port = self.port or own_port
            return row

        answer_with(hit, _split(hit, code), make)


@dataclass(repr=False)
class StaleMetadata(Effect):
    """Return Metadata as of the making of the rule: newer topics and partitions are missing,
    deleted ones exist. The broker must be running when the rule is made.
    """

    then: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)
    """The topic rows of that time, by name."""
    apis = (ApiKey.METADATA,)

    def arm(self, rule: Rule) -> None:
        if rule.wanted.partition is not None:
            raise WrongArgument("stale_metadata() applies to whole topics: leave out partition=")
        self.then = {topic.name: topic for topic in rule.bench.described_topics()}

    def apply(self, hit: Hit) -> None:
        split = _split(hit, ErrorCode.NONE)
        wanted = hit.wanted.topic

        def make(level: Level, names: Named, source: Any) -> Any:
            row = self.then.get(names.topic or "")
            if row is not None:
                return row
            if split.concerns_all:
                return None
            row = blank(level, names, source)
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return row

        def with_deleted(answer: Answer) -> Answer:
            there = {topic.name for topic in answer.topics}
            gone = [
                row
                for name, row in self.then.items()
                if name not in there and wanted in (None, name)
            ]
            answer.topics = [*answer.topics, *gone]
            return answer

        if split.concerns_all:
            hit.exchange.on_answer(with_deleted)
        answer_with(hit, split, make)


@dataclass(repr=False)
class StaleGeneration(Effect):
    """Return the previous generation from JoinGroup, so that the member's next request fails with
    ILLEGAL_GENERATION.
    """

    apis = (ApiKey.JOIN_GROUP,)

    def concerns(self, hit: Hit) -> bool:
        """Skip a first JoinGroup, whose response has a member id but no generation (KIP-394)."""
        request = hit.exchange.request
        return bool(
            request.member_id or request.group_instance_id or hit.version < _IDS_REQUIRED_SINCE
        )

    def apply(self, hit: Hit) -> None:
        def make_stale(answer: Answer) -> Answer:
            if answer.error_code:
                return answer
            hit.count()
            answer = copy(answer)
            answer.generation_id -= 1
            return answer

        hit.exchange.on_answer(make_stale)
        hit.proceed()


_IDS_REQUIRED_SINCE: Final = 4
"""Since this version of JoinGroup, a member gets its id before it joins."""
