"""Reads the log of one partition from its leader, in whole record batches.

Source: Kafka's `FetchCollector` and `AbstractFetch` (retriable errors), and
`FetchContext.getThrottledResponse`: a client that has used up its quota gets no partition.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from groupkeeper.client.client import LONGEST_PAUSE_S, CallFailed, Client, Retries
from groupkeeper.client.partitions import MOVING, leaders_of, list_offsets
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

FETCH_BYTES: Final = 1024 * 1024
"""Maximum size of a response; a larger batch is returned alone."""
EMPTY_PAUSE_S: Final = 0.05
"""Pause after a response without items, which a server may send without waiting."""

T = TypeVar("T")


class PartitionReader:
    """Fetches from the partition's leader, wherever it moves."""

    def __init__(
        self, client: Client, topic: str, partition: int, most_bytes: int = FETCH_BYTES
    ) -> None:
        self.name = f"{topic}, partition {partition}"
        self._client = client
        self._place = (topic, partition)
        self._most_bytes = most_bytes
        self._leader: int | None = None

    async def offset(self, time_ms: int) -> int:
        """Return the offset of the first record from a time on (NO_SUCH_RECORD if there is none),
        or for LATEST or EARLIEST. Raises CallFailed.
        """
        found = (await list_offsets(self._client, [self._place], time_ms))[self._place]
        if found is None:
            raise CallFailed("ListOffsets", None, ErrorCode.LEADER_NOT_AVAILABLE, self.name)
        return found

    async def fetch(self, start: int, wait_ms: int = 0) -> PartitionData:
        """Return the batches from an offset on, the last of which may be cut off, or the error
        OFFSET_OUT_OF_RANGE. Retries while the partition moves, or the broker throttles the client,
        until the client's timeout.

        Raises CallFailed, also for other errors of the partition.
        """
        retries = Retries(self._client.timeout_s)
        while True:
            try:
                return await self._ask(start, wait_ms)
            except CallFailed as failure:
                if failure.error != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                    self._leader = None
                    if failure.error not in MOVING:
                        raise
                if not await retries.pause():
                    raise

    async def _ask(self, start: int, wait_ms: int) -> PartitionData:
        topic, number = self._place
        if self._leader is None:
            self._leader = (await leaders_of(self._client, [topic])).get(self._place)
            if self._leader is None:
                raise CallFailed("Fetch", None, ErrorCode.LEADER_NOT_AVAILABLE, self.name)
        partition = FetchPartition(
            partition=number, fetch_offset=start, partition_max_bytes=self._most_bytes
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._most_bytes,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = await self._client.call(request, node=self._leader)
        if not answer.responses:  # the quota of the client is used up
            most_s = self._client.timeout_s / 2  # then there is time to ask once more
            await asyncio.sleep(min(answer.throttle_time_ms / 1000, most_s))
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            raise CallFailed("Fetch", self._leader, code, self.name)
        data: PartitionData = answer.responses[0].partitions[0]
        if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            raise CallFailed("Fetch", self._leader, ErrorCode(data.error_code), self.name)
        return data


async def followed(
    fetch: Callable[[int, int], Awaitable[tuple[int, list[T]]]],
    start: int,
    wait_ms: Callable[[], int],
    lost: Callable[[CallFailed], None],
) -> AsyncIterator[list[T]]:
    """Yield new items forever, and an empty list after each `wait_ms()` without any. `fetch` takes
    an offset and a long-poll timeout, and returns the next offset and the items.

    While no leader responds, `lost` is called after each timeout of the client.
    """
    while True:
        try:
            start, items = await fetch(start, wait_ms())
        except CallFailed as failure:
            if failure.error not in MOVING and failure.error != ErrorCode.REQUEST_TIMED_OUT:
                raise
            lost(failure)
            await asyncio.sleep(LONGEST_PAUSE_S)
            continue
        yield items
        if not items:
            await asyncio.sleep(EMPTY_PAUSE_S)
