"""Splits requests for several groups into batches, one step each, and puts their replies together.

Operators name a hundred thousand groups in one request, and two bytes of a request may take two
hundred kilobytes of response. So no group is looked up twice, a batch is about a millisecond of
work, and named limits bound the rest.
"""

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from groupkeeper.apis.gather import Gather
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import limit_reached
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import bulk, mapped
from groupkeeper.turns import Slices

MAX_GROUPS_ASKED: Final = 100_000
"""How many groups one request may name, repeated ones included; more are INVALID_REQUEST."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Approximate size of a response. Groups beyond it get COORDINATOR_LOAD_IN_PROGRESS, which Kafka's
clients retry; some other clients refuse responses over 100 MB."""

BATCH_GROUPS: Final = 100
"""How many groups one step looks up at most."""
BATCH_ITEMS: Final = 1_000
"""About how many members or topics one step looks up."""
SLICE_CHARACTERS: Final = 4_000
"""How many characters of group ids are hashed in one slice; each id counts `ITEM_CHARACTERS`
more."""
ITEM_CHARACTERS: Final = 20
"""Work for an item without its id, in characters."""
SHARDS: Final = 64
"""How many dictionaries share the keys of a request."""
PER_GROUP: Final = 50
"""Approximate bytes of a result without its names and data."""

_log = Logger("groups")


class BatchedApi(Protocol):
    """The differences between APIs that name several groups."""

    name: str
    items: list[Any]
    """The groups of the request. `GroupsRequest` empties the list."""
    repeats: bool
    """Whether a group that is repeated has a result for each time."""

    def key(self, at: int) -> Hashable:
        """Return the key of an item; items with the same key have the same result."""

    def group_id(self, item: Any) -> str: ...

    def excess(self, item: Any) -> tuple[str, int] | None:
        """Return the limit that the item exceeds, if any."""

    def weight(self, item: Any, driver: PartitionDriver) -> int:
        """Estimate how many members or topics the result has."""

    def parts(self, item: Any) -> Sequence[Any]:
        """Return the item, or its parts if it is too large for one step."""
        return (item,)

    def joined(self, results: Sequence[Any]) -> Any:
        """Join the results of an item's parts."""
        [result] = results
        return result

    def request(self, items: list[Any]) -> Any:
        """Make the request to the groups' partition."""

    def results(self, reply: Any) -> Sequence[Any]:
        """Return the results in the reply, one per item."""

    def size(self, result: Any, driver: PartitionDriver) -> int:
        """Estimate the bytes of the result, for a group of this driver."""

    def refused(self, error: ErrorCode, item: Any) -> Any:
        """Make a result with an error."""

    def whole(self, results: list[Any]) -> Response:
        """Make the response with one result per item."""


class BatchedByGroupId(BatchedApi):
    """An API whose items are group ids."""

    items: list[str]

    def key(self, at: int) -> str:
        return self.items[at]

    def group_id(self, item: str) -> str:
        return item

    def excess(self, item: str) -> None:
        return None


@dataclass(slots=True, eq=False)
class _Batch:
    """Items that one partition looks up in one step."""

    driver: PartitionDriver
    items: list[Any] = field(default_factory=list)
    """Items, or parts of them."""
    indexes: "array[int]" = field(default_factory=lambda: array("l"))
    parts: "array[int]" = field(default_factory=lambda: array("l"))
    """Places of their results: the index of the item, and of the part within it."""
    weight: int = 0

    def add(self, item: Any, index: int, part: int, weight: int) -> None:
        self.items.append(item)
        self.indexes.append(index)
        self.parts.append(part)
        self.weight += weight

    @property
    def is_full(self) -> bool:
        return len(self.items) >= BATCH_GROUPS or self.weight >= BATCH_ITEMS


class _Numbers:
    """Numbers keys in the order of their first occurrence."""

    def __init__(self) -> None:
        self._count = 0
        # A single dictionary would have to grow in one slice.
        self._shards = [dict[Hashable, int]() for _ in range(SHARDS)]

    def of(self, key: Hashable) -> int:
        number = self._shards[hash(key) % SHARDS].setdefault(key, self._count)
        self._count += number == self._count
        return number

    def free(self) -> Slices[None]:
        """Free the keys in slices: to free all at once takes too long."""
        shards = self._shards
        while shards:
            if len(shards.pop()) * SHARDS > BATCH_ITEMS:
                yield


class GroupsRequest:
    """A request for several groups under way.

    Numbers are in arrays, which a garbage collection does not visit. Every item is held in one
    place only, and freed with its batch: to free a hundred thousand at once takes 10 ms.
    """

    def __init__(self, api: BatchedApi, group_partitions: GroupPartitions, caller: Caller) -> None:
        self._api = api
        self._group_partitions = group_partitions
        self._caller = caller
        self._times = array("l")
        """Number of times that the response has the result of each distinct item."""
        self._order = array("l")
        """Index of the distinct item, for every result of the response."""
        self._results: list[Any] = []
        """Results of the distinct items."""
        self._in_parts: dict[int, list[Any]] = {}
        """Results so far of items in parts, by index."""
        self._bytes = 0
        self._reported = False

    def ask(self, reply_to: ReplyTo) -> Slices[Response | None]:
        """Send the batches, one per slice."""
        api = self._api
        if len(api.items) > MAX_GROUPS_ASKED:
            self._report("max_groups_asked", MAX_GROUPS_ASKED)
            asked = self._results
            yield from self._number(asked.append)
            refused = partial(api.refused, ErrorCode.INVALID_REQUEST)
            return api.whole(mapped(refused, bulk(asked)))
        batches: list[_Batch] = []
        yield from self._number(partial(self._place, batches, {}))
        if not batches:
            return self._whole()
        gather = Gather(reply_to, len(batches), self._whole)
        batches.reverse()
        while batches:
            batch = batches.pop()
            token = gather.part(partial(self._take, batch))
            batch.driver.call(api.request(batch.items), self._caller, token)
            yield
        return None

    def _number(self, add: Callable[[Any], int | None]) -> Slices[None]:
        """Take the items out of the request, and give each distinct one a number. `add` gets it,
        adds its place to `_results`, and returns how much work that was, in characters.
        """
        api, numbers, left = self._api, _Numbers(), SLICE_CHARACTERS
        items, times, order = api.items, self._times, self._order
        for at, item in enumerate(items):
            index = numbers.of(api.key(at))
            items[at] = None
            is_new = index == len(times)
            if is_new:
                times.append(0)
                left -= add(item) or 0
            if api.repeats or is_new:
                times[index] += 1
                order.append(index)
            left -= ITEM_CHARACTERS
            if left <= 0:
                left = SLICE_CHARACTERS
                yield
        items.clear()
        yield from numbers.free()

    def _place(
        self, batches: list[_Batch], unfinished: dict[PartitionDriver, _Batch], item: Any
    ) -> int:
        """Add an item to a batch of its partition; return the work in characters."""
        api, index = self._api, len(self._results)
        self._results.append(None)
        excess = api.excess(item)
        if excess is not None:
            self._report(*excess)
            self._results[index] = api.refused(ErrorCode.INVALID_REQUEST, item)
            return 0
        group_id = api.group_id(item)
        driver = self._group_partitions.of(group_id)
        parts = api.parts(item)
        if len(parts) > 1:
            self._in_parts[index] = [None] * len(parts)
        for at, part in enumerate(parts):
            batch = unfinished.get(driver)
            if batch is None:
                batch = unfinished[driver] = _Batch(driver)
                batches.append(batch)
            batch.add(part, index, at, api.weight(part, driver))
            if batch.is_full:
                del unfinished[driver]
        return len(group_id) if len(parts) == 1 else SLICE_CHARACTERS

    def _take(self, batch: _Batch, reply: Response) -> None:
        results = self._api.results(reply)
        rows = zip(batch.indexes, batch.parts, batch.items, results, strict=True)
        for index, part, item, result in rows:
            size = self._api.size(result, batch.driver) * self._times[index]
            fitting = self._fitting(size, item, result)
            if index in self._in_parts:
                self._in_parts[index][part] = fitting
            else:
                self._results[index] = fitting

    def _fitting(self, size: int, item: Any, result: Any) -> Any:
        """Return the result, or an error if the response is full."""
        if self._bytes + size > MAX_ANSWER_BYTES and len(self._order) > 1:
            self._report("max_answer_bytes", MAX_ANSWER_BYTES)
            return self._api.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, item)
        self._bytes += size
        return result

    def _whole(self) -> Response:
        for index, results in self._in_parts.items():
            self._results[index] = self._api.joined(results)
        return self._api.whole(bulk(self._results, self._order))

    def _report(self, limit: str, most: int) -> None:
        if not self._reported:
            self._reported = True
            limit_reached(_log, limit, most, self._api.name, self._caller)
