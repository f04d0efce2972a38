"""A client that writes to two topics, one that is compacted and one whose old records are deleted,
and that reads them back again and again.

Records of topics are acknowledged from the page cache: a power cut may take the last ones, and
nothing else. What is deleted is what the configs of the topic say, whatever crashes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches
from tests.simulation.cluster import ADDRESS, START_OF_TIME_MS
from tests.simulation.consumer import Wire
from tests.support.consumer import RETRY
from tests.support.requests import batch_request, create_request, list_request, records_request
from tests.support.virtual_loop import VirtualLoop

PAUSE_S = (1.0, 5.0)
KEYS = 7
RETENTION_MS = 300_000
TOMBSTONES_MS = 120_000
SEGMENT = {"segment.ms": "60000"}
TABLE, EVENTS = "table", "events"
CONFIGS: Mapping[str, Mapping[str, str]] = {
    TABLE: SEGMENT | {"cleanup.policy": "compact", "delete.retention.ms": str(TOMBSTONES_MS)},
    EVENTS: SEGMENT | {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)},
}
EARLIEST = -2
"""A timestamp of ListOffsets: the first offset."""
LATER = RETRY | {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}


class Row(NamedTuple):
    """A record."""

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None


@dataclass
class Producer:
    """One client, as long as its task runs."""

    loop: VirtualLoop
    written: dict[str, list[Row]] = field(default_factory=lambda: {TABLE: [], EVENTS: []})
    """By topic: every record that is in its log, or was."""
    may_lose: set[str] = field(default_factory=set)
    """Topics whose last records may be lost: the power was cut, and nobody has looked since."""
    starts: dict[str, int] = field(default_factory=dict)
    """Where the logs begin."""
    looks: int = 0
    compacted_away: int = 0
    """The most records that were seen to be missing from the compacted topic."""
    lost: int = 0
    """Records, in power cuts."""
    _sent: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    """What may be in a log, and was not acknowledged."""
    _wire: Wire | None = None

    def power_cut(self) -> None:
        self.may_lose = {TABLE, EVENTS}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._create()
        while True:
            await asyncio.sleep(self.loop.random.uniform(*PAUSE_S))
            topic = self.loop.random.choice([TABLE, EVENTS])
            try:
                if topic in self.may_lose or self._sent or self.loop.random.random() < 0.1:
                    await self._look(TABLE)
                    await self._look(EVENTS)
                    self._sent = []
                else:
                    await self._produce(topic)
            except ConnectionError:
                self._wire = None

    async def call(self, version: int, request: Message) -> Any:
        if self._wire is None or self._wire.transport is None:
            self._wire = Wire("producer")
            self.loop.dial(ADDRESS, self._wire)
        return await self._wire.call(version, request)

    async def _create(self) -> None:
        request, more = (create_request(name, **configs) for name, configs in CONFIGS.items())
        request.topics += more.topics
        made = await self.call(5, request)
        assert not any(topic.error_code for topic in made.topics), made

    async def _produce(self, topic: str) -> None:
        chance = self.loop.random
        at_ms = START_OF_TIME_MS + int(self.loop.time() * 1000)
        self._sent = [
            (b"key %d" % chance.randrange(KEYS), None if chance.random() < 0.2 else b"%d" % at_ms)
            for _ in range(chance.randint(1, 3))
        ]
        request = batch_request(topic, 0, encode_batch(0, -1, at_ms, self._sent))
        [done] = (await self.call(9, request)).responses[0].partition_responses
        _check(done.error_code)
        self.written[topic] += [
            Row(offset, at_ms, *record)
            for offset, record in enumerate(self._sent, done.base_offset)
        ]
        self._sent = []

    async def _look(self, topic: str) -> None:
        """Read all of a topic, and compare."""
        found: list[Row] = []
        start = position = await self._first(topic)
        while True:
            part = await self._fetch(topic, position)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted meanwhile
                found, position = [], await self._first(topic)
                continue
            _check(part.error_code)
            start, before = part.log_start_offset, position
            for header in iter_batches(part.records or b""):
                found += [
                    Row(each.offset, each.timestamp_ms, each.key, each.value)
                    for each in decode_records(part.records, header)
                    if each.offset >= position
                ]
                position = header.next_offset
            if position >= part.high_watermark:
                break
            assert position > before, (topic, "cannot be read to its end", position)
        self._settle(topic, found, position)
        history = [each for each in self.written[topic] if each.offset >= start]
        if topic == EVENTS:
            assert [each for each in found if each.offset >= start] == history, topic
        else:
            self._check_table(found, history)
        assert start >= self.starts.get(topic, 0), (topic, "begins earlier again")
        self.starts[topic] = start
        self.looks += 1

    async def _first(self, topic: str) -> int:
        request = list_request(topic, 0, EARLIEST)
        [found] = (await self.call(5, request)).topics[0].partitions
        _check(found.error_code)
        return int(found.offset)

    async def _fetch(self, topic: str, offset: int) -> Any:
        answer = await self.call(11, records_request(topic, 0, offset))
        [found] = answer.responses[0].partitions
        return found

    def _settle(self, topic: str, found: list[Row], end: int) -> None:
        """Learn what became of records that were not acknowledged, or were lost in a power cut."""
        history = self.written[topic]
        known = history[-1].offset + 1 if history else 0
        if end < known:
            assert topic in self.may_lose, (topic, "has lost acknowledged records", end, known)
            self.lost += known - end
            del history[end:]
        elif end > known:
            more = [each for each in found if each.offset >= known]
            assert [(each.key, each.value) for each in more] == self._sent, (topic, more)
            history += more
        self.may_lose.discard(topic)

    def _check_table(self, found: list[Row], history: list[Row]) -> None:
        assert set(found) <= set(history), "only what was written"
        assert [each.offset for each in found] == sorted({each.offset for each in found})
        left, newest = ({each.key: each for each in records} for records in (found, history))
        now_ms = START_OF_TIME_MS + int(self.loop.time() * 1000)
        for key, message in newest.items():
            may_be_gone = message.value is None and message.at_ms < now_ms - TOMBSTONES_MS
            assert left.get(key) == message or (may_be_gone and key not in left), (key, message)
        self.compacted_away = max(self.compacted_away, len(history) - len(found))


def _check(error: int) -> None:
    """Raise ConnectionError for an error that goes away."""
    assert error == ErrorCode.NONE or error in LATER, ErrorCode(error)
    if error:
        raise ConnectionError(ErrorCode(error).name)
