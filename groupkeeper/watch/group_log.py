"""Reads the records of one group from `__consumer_offsets` of any cluster, as inferred events.

    log = await GroupLog.of(client, "billing")      # NoOffsetsLog: the topic cannot be read
    async for events in log.read(await log.since(time_ms), log.end): ...

Only the group's partition is read, in responses of bounded size, and of each response only the
inferred events are kept. Events come in the stored form, with `source` and `confidence`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.partition_log import PartitionReader, followed
from groupkeeper.client.partitions import EARLIEST, LATEST, NO_SUCH_RECORD, describe_topics
from groupkeeper.history.coverage import OFFSETS_LOG
from groupkeeper.history.newer import CURRENT_TYPES
from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import GroupRecord
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.watch.cluster_asking import session_limits, topic_names
from groupkeeper.watch.inferred import GroupEvents
from groupkeeper.watch.records import LogReader

RIGHTS: Final = f"READ on the topic {OFFSETS_LOG}, DESCRIBE on the group"
"""The rights that a client needs to read the records of a group."""

Progress = Callable[[int], None]
"""Called with the number of bytes just read."""


class NoOffsetsLog(Exception):
    """The topic does not exist, or may not be read. The text is a clause that says why."""


class GroupLog:
    """The partition of a group. `start` and `end` are the log's initial bounds."""

    def __init__(self, client: Client, group: str, partition: int) -> None:
        self._client, self._group, self._partition = client, group, partition
        self._log = PartitionReader(client, OFFSETS_LOG, partition)
        self.name = self._log.name
        self.start = self.end = 0
        self._names: dict[bytes, str] = {}
        self._sessions: dict[str, SessionLimit] = {}
        self._has_asked = False
        self._begin(0)

    def _begin(self, start: int) -> None:
        """Forget everything, to read from an offset on."""
        self._read_from = start
        self._reader = LogReader(self._partition, self._group)
        self._events = GroupEvents(self._group, self._names, self._sessions)

    @classmethod
    async def of(cls, client: Client, group: str) -> "GroupLog":
        """Open the partition of a group (Kafka's hash). Raises NoOffsetsLog and CallFailed."""
        [topic] = await describe_topics(client, [OFFSETS_LOG])
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise _no_right()
        if topic.error_code or not topic.partitions:
            raise NoOffsetsLog(f"the cluster shows no topic {OFFSETS_LOG}")
        log = cls(client, group, partition_of(group, len(topic.partitions)))
        log.start, log.end = await log._log.offset(EARLIEST), await log._log.offset(LATEST)
        return log

    @property
    def kind(self) -> str | None:
        """`consumer`, `share` or `streams`, whose partitions the server assigns; None for a classic
        group.
        """
        newer = self._events.newer
        return self._events.kind if newer is None else newer.kind

    @property
    def epoch_view(self) -> dict[str, Any]:
        """The epoch under way of a consumer group, in the form of `live` of the HTTP API; empty if
        all members have reached it.
        """
        newer = self._events.newer
        if newer is None or newer.round is None:
            return {}
        members = [{**each.who, "epoch": each.epoch} for each in newer.members.values()]
        about = {"rebalance": {"phase": "reconcile"}, "waiting_for": [*newer.behind]}
        return {"generation": newer.epoch, "members": members, **about}

    @property
    def has_record(self) -> bool:
        """Whether a record of the group was read: without one, the cause of its next rebalance
        cannot be inferred.
        """
        return self._events.has_record

    @property
    def unreadable(self) -> int:
        """Number of records and batches that could not be decoded."""
        return self._reader.unreadable + self._events.unreadable

    @property
    def first_error(self) -> str:
        """The first error of decoding."""
        return self._reader.first_error or "a group record with an unreadable value"

    @property
    def unknown_types(self) -> dict[int, int]:
        """Number of records per key type that this version does not know."""
        return {**self._reader.unknown}

    async def since(self, time_ms: int) -> int:
        """Return the offset of the first record from a time on; the log end if all are older."""
        offset = await self._log.offset(time_ms)
        return self.end if offset == NO_SUCH_RECORD else max(offset, self.start)

    async def read(
        self, start: int, end: int, progress: Progress = lambda size: None
    ) -> AsyncIterator[list[Event]]:
        """Yield the events of the group in [start, end), one response at a time; what comes after
        `end` in the last response, too. Raises NoOffsetsLog and CallFailed.

        Begins anew: nothing is known of the time before.
        """
        self._begin(start)
        while start < end:
            try:
                following, events, size = await self._fetch(start, wait_ms=0)
            except CallFailed as failure:
                if failure.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise _no_right() from None
                raise
            if following == start:
                break
            start = following
            progress(size)
            yield events
        self.end = max(start, end)

    async def follow(
        self, start: int, wait_ms: Callable[[], int], lost: Callable[[CallFailed], None]
    ) -> AsyncIterator[list[Event]]:
        """Yield new events forever, and an empty list after each `wait_ms()` without any.

        While no leader responds, `lost` is called after each timeout of the client.
        """

        async def fetch(at: int, ms: int) -> tuple[int, list[Event]]:
            following, events, _ = await self._fetch(at, ms)
            return following, events

        async for events in followed(fetch, start, wait_ms, lost):
            yield events

    async def _fetch(self, start: int, wait_ms: int) -> tuple[int, list[Event], int]:
        """Return the next offset, the events, and the size of the response in bytes."""
        data = await self._log.fetch(start, wait_ms)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._moved(start), [], 0
        records = bytes(data.records or b"")
        try:
            following, items = self._reader.feed(records, start, data.high_watermark)
            if records and following == start:
                raise CorruptBatch(f"no batch is whole in {len(records)} bytes")
        except CorruptBatch as problem:
            error, where = ErrorCode.CORRUPT_MESSAGE, f"{self.name} at offset {start}"
            raise CallFailed("Fetch", None, error, f"{where}: {problem}") from problem
        known = self._reader.known
        if self._read_from > self.start:
            # What is before the first record read is not known, as if it had been lost.
            known = known._replace(lost_until=(self._read_from, *known.lost_until))
        if not self._has_asked and any(map(_is_newer, items)):
            self._has_asked = True
            await self._ask()
        told = self._events.take(items, known)
        return following, [each.stored() for each in told], len(records)

    async def _ask(self) -> None:
        """Ask for what records of consumer, share and streams groups do not say."""
        self._names |= {topic: name async for topic, name in topic_names(self._client)}
        with suppress(CallFailed):  # brokers before 4.0, or no right
            self._sessions |= await session_limits(self._client, [self._group])

    async def _moved(self, start: int) -> int:
        """Return the offset to go on from where records were deleted, or the topic was made anew:
        nothing is known of the time before.
        """
        first, last = await self._log.offset(EARLIEST), await self._log.offset(LATEST)
        following = first if start < first else last
        self._begin(following)
        return following


def _no_right() -> NoOffsetsLog:
    return NoOffsetsLog(f"the topic {OFFSETS_LOG} may not be read (needed: {RIGHTS})")


def _is_newer(item: Fed) -> bool:
    return isinstance(item, GroupRecord) and item.key_type in CURRENT_TYPES
