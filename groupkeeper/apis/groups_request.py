"""Requests for several groups: split into batches that one step answers, asked, put together.

Operators ask for a hundred thousand groups at once, and what is asked in two bytes may take two
hundred kilobytes to say. So nothing is asked for twice, a batch is about a millisecond of work, and
what there is too much of is refused by a named limit.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from groupkeeper.apis.gather import Gather
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.offsets import merge_parts, offset_bytes
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.observe.limit_lines import limit_reached
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from groupkeeper.topics.limits import PARTITIONS_MOST, TOPICS_MOST
from groupkeeper.turns import Slices

MAX_GROUPS_ASKED: Final = 100_000
"""How many groups one request may name, repeated ones included; more are INVALID_REQUEST."""
MAX_TOPICS_ASKED: Final = TOPICS_MOST
"""How many topics of one group an OffsetFetch may name; more are INVALID_REQUEST."""
MAX_PARTITIONS_ASKED: Final = PARTITIONS_MOST
"""How many partitions of one group an OffsetFetch may name; more are INVALID_REQUEST."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""About as much is answered. What is beyond gets COORDINATOR_LOAD_IN_PROGRESS, upon which Kafka's
own clients ask for that again; there are others that refuse answers over 100 MB."""

BATCH_GROUPS: Final = 100
"""So many groups are asked for in one step at most."""
BATCH_ITEMS: Final = 1_000
"""So many members or topics, more or less, are asked for in one step."""
SLICE_CHARACTERS: Final = 10_000
"""Group ids of so many characters are hashed before others have a turn."""
SHARDS: Final = 64
"""So many dictionaries share the keys of a request."""
_PER_GROUP: Final = 50
"""Bytes of a result without its names and data, more or less."""

_log = Logger("groups")


class Asking(Protocol):
    """What there is to an API that names several groups."""

    name: str
    items: Sequence[Any]
    """What is asked for, as it came."""
    repeats: bool
    """What is asked for again is answered again."""

    def key(self, at: int) -> Hashable:
        """Items of the same key have the same result."""

    def group_id(self, item: Any) -> str: ...

    def excess(self, item: Any) -> tuple[str, int] | None:
        """The limit that the item exceeds."""

    def weight(self, item: Any, driver: PartitionDriver) -> int:
        """How many members or topics its result has, more or less."""

    def parts(self, item: Any) -> Sequence[Any]:
        """The item, or what it is cut into because it is too much for one step."""
        return (item,)

    def joined(self, results: Sequence[Any]) -> Any:
        """The result of an item, from those of its parts."""
        [result] = results
        return result

    def request(self, items: list[Any]) -> Any:
        """What the groups' partition is asked."""

    def results(self, reply: Any) -> Sequence[Any]:
        """What it says of each of them."""

    def size(self, result: Any) -> int:
        """Bytes that the result takes, more or less."""

    def refused(self, error: ErrorCode, item: Any) -> Any:
        """A result that is an error."""

    def whole(self, results: list[Any]) -> Response:
        """The answer with one result per item."""


@dataclass(slots=True, eq=False)
class Batch:
    """What is asked of one partition in one step."""

    driver: PartitionDriver
    items: list[Any] = field(default_factory=list)
    """Items, or parts of them."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """Where their results go: the place of the item, and which of its parts it is."""
    weight: int = 0

    def add(self, item: Any, place: int, part: int, weight: int) -> None:
        self.items.append(item)
        self.places.append((place, part))
        self.weight += weight

    @property
    def is_full(self) -> bool:
        return len(self.items) >= BATCH_GROUPS or self.weight >= BATCH_ITEMS


class Several:
    """One such request under way."""

    def __init__(self, asking: Asking, group_partitions: GroupPartitions, caller: Caller) -> None:
        self._asking = asking
        self._group_partitions = group_partitions
        self._caller = caller
        self._distinct: list[Any] = []
        self._times: list[int] = []
        """How often each of the distinct items is asked for."""
        self._order: list[int] = []
        """Place of its distinct item, for every item."""
        self._results: list[Any] = []
        self._in_parts: dict[int, list[Any]] = {}
        """The results so far of items that were cut, by place."""
        self._bytes = 0
        self._told = False

    def ask(self, reply_to: ReplyTo) -> Slices[Response | None]:
        """Ask for the batches, one a slice."""
        asking = self._asking
        if len(asking.items) > MAX_GROUPS_ASKED:
            self._tell("MAX_GROUPS_ASKED", MAX_GROUPS_ASKED)
            yield from self._sort_out()
            refused = partial(asking.refused, ErrorCode.INVALID_REQUEST)
            return asking.whole(mapped(refused, self._distinct))
        yield from self._sort_out()
        batches = yield from self._split()
        if not batches:
            return self._whole()
        gather = Gather(reply_to, len(batches), self._whole)
        for batch in batches:
            token = gather.part(partial(self._take, batch))
            batch.driver.call(asking.request(batch.items), self._caller, token)
            yield
        return None

    def _sort_out(self) -> Slices[None]:
        asking = self._asking
        # One dictionary of all would have to grow in one go.
        shards = [dict[Hashable, int]() for _ in range(SHARDS)]
        for at, item in enumerate(asking.items):
            key = asking.key(at)
            places = shards[hash(key) % SHARDS]
            place = places.setdefault(key, len(self._distinct))
            if place == len(self._distinct):
                self._distinct.append(item)
                self._times.append(0)
            self._times[place] += 1
            if asking.repeats or self._times[place] == 1:
                self._order.append(place)
            if at % BATCH_ITEMS == BATCH_ITEMS - 1:
                yield
        while shards:  # to forget takes its time as well
            if len(shards.pop()) * SHARDS > BATCH_ITEMS:
                yield

    def _split(self) -> Slices[list[Batch]]:
        asking, batches, left = self._asking, list[Batch](), SLICE_CHARACTERS
        unfinished: dict[PartitionDriver, Batch] = {}
        self._results = [None] * len(self._distinct)
        for place, item in enumerate(self._distinct):
            excess = asking.excess(item)
            if excess is not None:
                self._tell(*excess)
                self._results[place] = asking.refused(ErrorCode.INVALID_REQUEST, item)
                continue
            group_id = asking.group_id(item)
            driver = self._group_partitions.of(group_id)
            parts = asking.parts(item)
            if len(parts) > 1:
                self._in_parts[place] = [None] * len(parts)
            for at, part in enumerate(parts):
                batch = unfinished.get(driver)
                if batch is None:
                    batch = unfinished[driver] = Batch(driver)
                    batches.append(batch)
                batch.add(part, place, at, asking.weight(part, driver))
                if batch.is_full:
                    del unfinished[driver]
                left -= 20 + len(group_id)
                if left <= 0 or len(parts) > 1:
                    left = SLICE_CHARACTERS
                    yield
        return batches

    def _take(self, batch: Batch, reply: Response) -> None:
        results = self._asking.results(reply)
        for (place, part), result in zip(batch.places, results, strict=True):
            fitting = self._fitting(place, result)
            if place in self._in_parts:
                self._in_parts[place][part] = fitting
            else:
                self._results[place] = fitting

    def _fitting(self, place: int, result: Any) -> Any:
        """The result, if the answer has room for it."""
        size = self._asking.size(result) * self._times[place]
        if self._bytes + size > MAX_ANSWER_BYTES and len(self._order) > 1:
            self._tell("MAX_ANSWER_BYTES", MAX_ANSWER_BYTES)
            error, item = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, self._distinct[place]
            return self._asking.refused(error, item)
        self._bytes += size
        return result

    def _whole(self) -> Response:
        for place, results in self._in_parts.items():
            self._results[place] = self._asking.joined(results)
        return self._asking.whole(mapped(self._results.__getitem__, self._order))

    def _tell(self, limit: str, most: int) -> None:
        if not self._told:
            self._told = True
            limit_reached(_log, limit, most, self._asking.name, self._caller)


class OfGroupIds(Asking):
    """An API whose items are group ids."""

    items: Sequence[str]

    def key(self, at: int) -> str:
        return self.items[at]

    def group_id(self, item: str) -> str:
        return item

    def excess(self, item: str) -> None:
        return None


@dataclass(slots=True)
class DescribeSeveral(OfGroupIds):
    """DescribeGroups: as many results as ids, in the order asked."""

    items: Sequence[str]
    operations: bool
    repeats: bool = True
    name: str = "DescribeGroups"

    def weight(self, item: str, driver: PartitionDriver) -> int:
        group = driver.peek(item)
        return 0 if group is None else len(group.members)

    def request(self, items: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=items, include_authorized_operations=self.operations)

    def results(self, reply: DescribeGroupsResponse) -> Sequence[DescribedGroup]:
        return reply.groups

    def size(self, result: DescribedGroup) -> int:
        return (
            _PER_GROUP
            + len(result.group_id)
            + sum(
                _PER_GROUP
                + len(m.member_id)
                + len(m.client_id)
                + len(m.member_metadata)
                + len(m.member_assignment)
                for m in result.members
            )
        )

    def refused(self, error: ErrorCode, item: str) -> DescribedGroup:
        return DescribedGroup(group_id=item, error_code=error)

    def whole(self, results: list[DescribedGroup]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=results)


@dataclass(slots=True)
class DeleteSeveral(OfGroupIds):
    """DeleteGroups: an id that comes twice is answered once."""

    items: Sequence[str]
    repeats: bool = False
    name: str = "DeleteGroups"

    def weight(self, item: str, driver: PartitionDriver) -> int:
        return 1

    def request(self, items: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=items)

    def results(self, reply: DeleteGroupsResponse) -> Sequence[DeletableGroupResult]:
        return reply.results

    def size(self, result: DeletableGroupResult) -> int:
        return 0

    def refused(self, error: ErrorCode, item: str) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=item, error_code=error)

    def whole(self, results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=results)


@dataclass(slots=True)
class FetchSeveral(Asking):
    """OffsetFetch, in the form of several groups."""

    items: Sequence[OffsetFetchRequestGroup]
    require_stable: bool
    repeats: bool = True
    name: str = "OffsetFetch"

    def key(self, at: int) -> Hashable:
        """Only what asks for everything is worth comparing."""
        item = self.items[at]
        return item.group_id if item.topics is None else at

    def group_id(self, item: OffsetFetchRequestGroup) -> str:
        return item.group_id

    def excess(self, item: OffsetFetchRequestGroup) -> tuple[str, int] | None:
        topics = item.topics or ()
        if len(topics) > MAX_TOPICS_ASKED:
            return "MAX_TOPICS_ASKED", MAX_TOPICS_ASKED
        if sum(len(topic.partition_indexes) for topic in topics) > MAX_PARTITIONS_ASKED:
            return "MAX_PARTITIONS_ASKED", MAX_PARTITIONS_ASKED
        return None

    def weight(self, item: OffsetFetchRequestGroup, driver: PartitionDriver) -> int:
        """A partition takes a thirtieth of a topic."""
        sizes: Iterable[int]
        if item.topics is not None:
            sizes = (len(topic.partition_indexes) for topic in item.topics)
        else:
            group = driver.peek(item.group_id)
            sizes = () if group is None else map(len, group.offsets.values())
        return sum(1 + size // 30 for size in sizes)

    def parts(self, item: OffsetFetchRequestGroup) -> Sequence[OffsetFetchRequestGroup]:
        """Some topics at a time; offsets committed meanwhile may be among those of later ones."""
        topics, most = item.topics, BATCH_ITEMS
        if topics is None or len(topics) <= most:
            return (item,)
        return [
            OffsetFetchRequestGroup(group_id=item.group_id, topics=topics[at : at + most])
            for at in range(0, len(topics), most)
        ]

    def joined(self, results: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        return merge_parts(results)

    def request(self, items: list[OffsetFetchRequestGroup]) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=items, require_stable=self.require_stable)

    def results(self, reply: OffsetFetchResponse) -> Sequence[OffsetFetchResponseGroup]:
        return reply.groups

    def size(self, result: OffsetFetchResponseGroup) -> int:
        return _PER_GROUP + len(result.group_id) + offset_bytes(result)

    def refused(self, error: ErrorCode, item: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=item.group_id, error_code=error)

    def whole(self, results: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=results)
