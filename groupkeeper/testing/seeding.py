"""Creates topics, records and committed offsets in a test broker, and reads them, without a client.

Requests go through `Tap.ask`, which bypasses fault rules. Records are encoded and decoded on the
caller's thread, never on the server's event loop.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import (
    create_topics,
    fetch,
    metadata,
    offset_commit,
    offset_fetch,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch, size_of_record
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import RequestFailed
from groupkeeper.testing.host import Host
from groupkeeper.testing.partitioner import partition_of_key

BATCH_BYTES: Final = 256 * 1024
"""Maximum size of a batch, except for a single larger record."""
BATCH_RECORDS: Final = 5_000
FETCH_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a Fetch response; a larger batch is returned alone."""
TIMEOUT_MS: Final = 10_000

_CREATE_TOPICS_VERSION: Final = 7
_PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 11
_METADATA_VERSION: Final = 9
_OFFSET_FETCH_VERSION: Final = 7
_OFFSET_COMMIT_VERSION: Final = 8

Data = bytes | str | None
"""A key or value: bytes, a str to encode as UTF-8, or None for null (a tombstone)."""
Headers = Mapping[str, Data] | Iterable[tuple[str, Data]]
REASONS: Final = 3
"""Maximum number of per-record errors in a message."""

_Place = tuple[str, int]
"""(topic, partition)."""


class Record(NamedTuple):
    """A record in the log of a partition. A null key or value is None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Unix milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Seeding:
    """Implements the `Broker` methods of the same names. For any thread except the server's."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self._next: Counter[str] = Counter()
        """Number of records so far with neither key nor partition, by topic (round robin)."""

    def clear(self) -> None:
        """Restart the round robin over partitions."""
        self._next.clear()

    # -- topics --------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create one topic. Raises RequestFailed, also if the topic exists."""
        topics = arguments.topics({name: partitions})
        texts = {key: str(value) for key, value in configs.items()}
        self._bench.run(lambda: self.create_topics(topics, texts))

    async def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str], *, at_start: bool = False
    ) -> None:
        """Create topics, given as {name: number of partitions}. `at_start`: existing topics are
        kept, else they are an error, and no line says who created the others. Runs on the server's
        loop. Raises RequestFailed.
        """
        rows = [
            create_topics.CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=1,
                configs=[
                    create_topics.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()
                ],
            )
            for name, count in topics.items()
        ]
        request = create_topics.CreateTopicsRequest(topics=rows, timeout_ms=TIMEOUT_MS)
        peer = self._bench.inside(host="") if at_start else None
        version = _CREATE_TOPICS_VERSION
        answer = await self._bench.tap.ask(ApiKey.CREATE_TOPICS, version, request, peer=peer)
        for told in answer.topics:
            is_there = told.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            if told.error_code and not (at_start and is_there):
                raise RequestFailed(f"topic '{told.name}' was not created: {told.error_message}")

    # -- records -------------------------------------------------------------------------------

    def produce(
        self, topic: str, records: Iterable[TimedRecord], partition: int | None
    ) -> list[Record]:
        """Append records, and return them as stored, in the same order. Raises RequestFailed;
        batches appended before the error remain.
        """
        arguments.text(topic, "a topic's name")
        count = len(self._bench.run(lambda: self._partitions(topic, creates=True)))
        if partition is not None and not 0 <= arguments.whole(partition, "partition=") < count:
            raise RequestFailed(_no_partition(topic, partition, count))
        placed = [
            (self._place(topic, each.key, count) if partition is None else partition, each)
            for each in records
        ]
        by_partition = defaultdict[int, list[TimedRecord]](list)
        for at, each in placed:
            by_partition[at].append(each)
        stored = {at: iter(self._append_all(topic, at, some)) for at, some in by_partition.items()}
        return [
            Record(topic, at, *next(stored[at]), *each[1:3], tuple(each.headers))
            for at, each in placed
        ]

    def _place(self, topic: str, key: bytes | None, count: int) -> int:
        if key is not None:
            return partition_of_key(key, count)
        self._next[topic] += 1
        return (self._next[topic] - 1) % count

    def _append_all(
        self, topic: str, partition: int, records: list[TimedRecord]
    ) -> list[tuple[int, int]]:
        """Append records to one partition; return (offset, timestamp) of each."""
        stored: list[tuple[int, int]] = []
        waiting = list(_batches(records))[::-1]
        while waiting:
            some = waiting.pop()
            batch = encode_timed_batch(0, -1, some)
            told = self._bench.run(partial(self._append, topic, partition, batch))
            error = told.error_code
            if error == ErrorCode.MESSAGE_TOO_LARGE and len(some) > 1:
                half = len(some) // 2
                waiting += some[half:], some[:half]
            elif error:
                where = f"partition {partition} of topic '{topic}'"
                raise RequestFailed(f"{where} rejected the records: {_reason(told)}")
            else:
                times = [each.timestamp_ms for each in some]
                if told.log_append_time_ms >= 0:
                    times = [told.log_append_time_ms] * len(some)
                stored += enumerate(times, told.base_offset)
        return stored

    async def _append(self, topic: str, partition: int, batch: bytes) -> PartitionProduceResponse:
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await self._bench.tap.ask(ApiKey.PRODUCE, _PRODUCE_VERSION, request)
        [told] = answer.responses[0].partition_responses
        assert isinstance(told, PartitionProduceResponse)
        return told

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return all records in the log, partition by partition, without control records. Raises
        RequestFailed.
        """
        arguments.text(topic, "a topic's name")
        partitions = self._bench.run(lambda: self._partitions(topic, creates=False))
        if partition is not None and arguments.whole(partition, "partition=") not in partitions:
            raise RequestFailed(_no_partition(topic, partition, len(partitions)))
        found: list[Record] = []
        for at in partitions if partition is None else [partition]:
            start, end = 0, None
            while end is None or start < end:
                data = self._bench.run(partial(self._fetch, topic, at, start))
                start = max(start, data.log_start_offset)
                end = data.high_watermark if end is None else end
                following = _decode(found, (topic, at), bytes(data.records or b""), start, end)
                if following == start:
                    break
                start = following
        return found

    async def _fetch(self, topic: str, partition: int, offset: int) -> fetch.PartitionData:
        """Fetch from an offset, or from the log start offset if that is higher."""
        wanted = fetch.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = fetch.FetchRequest(
            max_bytes=FETCH_BYTES, topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])]
        )
        answer = await self._bench.tap.ask(ApiKey.FETCH, _FETCH_VERSION, request)
        data: fetch.PartitionData = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            extents = await self._bench.server.topics.positions.extents([(topic, partition)])
            if (topic, partition) in extents:
                return await self._fetch(topic, partition, extents[topic, partition].start_offset)
        _check(data.error_code, f"partition {partition} of topic '{topic}' cannot be read")
        data.records = bytes(data.records or b"")  # copy it while the buffer is valid
        return data

    async def _partitions(self, topic: str, *, creates: bool) -> list[int]:
        """Return the topic's partition numbers. `creates`: allow automatic topic creation."""
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=creates
        )
        answer = await self._bench.tap.ask(ApiKey.METADATA, _METADATA_VERSION, request)
        [told] = answer.topics
        if told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RequestFailed(
                f"topic '{topic}' does not exist: name it in topics= of the Broker, or call "
                "create_topic()"
            )
        _check(told.error_code, f"topic '{topic}' cannot be used")
        return sorted(each.partition_index for each in told.partitions)

    # -- offsets -------------------------------------------------------------------------------

    def committed(self, group: str) -> dict[_Place, int]:
        """Return the committed offsets of a group. Raises RequestFailed."""
        arguments.text(group, "a group's id")
        return self._bench.run(lambda: self.offsets_of(group))

    async def offsets_of(self, group: str) -> dict[_Place, int]:
        """Like `committed`, but on the server's loop."""
        request = offset_fetch.OffsetFetchRequest(group_id=group, topics=None)
        answer = await self._bench.tap.ask(ApiKey.OFFSET_FETCH, _OFFSET_FETCH_VERSION, request)
        _check(answer.error_code, f"the offsets of group '{group}' cannot be read")
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def commit(self, group: str, offsets: Mapping[_Place, int]) -> None:
        """Commit offsets of a group without members, like an admin client. Raises RequestFailed."""
        arguments.text(group, "a group's id")
        checked = arguments.offsets(offsets, "offsets=")
        self._bench.run(lambda: self._commit(group, checked))

    async def _commit(self, group: str, offsets: Mapping[_Place, int]) -> None:
        by_topic = defaultdict[str, list[offset_commit.OffsetCommitRequestPartition]](list)
        for (topic, partition), offset in offsets.items():
            each = offset_commit.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset
            )
            by_topic[topic].append(each)
        request = offset_commit.OffsetCommitRequest(
            group_id=group,
            topics=[
                offset_commit.OffsetCommitRequestTopic(name=topic, partitions=some)
                for topic, some in by_topic.items()
            ],
        )
        answer = await self._bench.tap.ask(ApiKey.OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, request)
        for topic in answer.topics:
            for told in topic.partitions:
                what = f"offset of {topic.name}-{told.partition_index} of group '{group}'"
                if told.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise RequestFailed(f"{what} was not committed: the group has members")
                _check(told.error_code, f"{what} was not committed")


# -- records: from arguments, and from the log ---------------------------------------------------


def timed(value: Data, key: Data, headers: Headers, timestamp_ms: int) -> TimedRecord:
    """Make a record from a test's arguments. Raises TypeError and ValueError."""
    pairs = [*headers.items()] if isinstance(headers, Mapping) else [*headers]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"a header is a (name, value) pair, not {pair!r}")
    named = tuple(
        (arguments.text(name, "a header's name"), _bytes(each, f"header '{name}'"))
        for name, each in pairs
    )
    return TimedRecord(timestamp_ms, _bytes(key, "key"), _bytes(value, "value"), named)


def _reason(refused: PartitionProduceResponse) -> str:
    """Format the error with the messages for the batch and its first `REASONS` bad records."""
    texts = [each.batch_index_error_message for each in refused.record_errors[:REASONS]]
    told = [ErrorCode(refused.error_code).name, refused.error_message, *texts]
    return ": ".join(each for each in told if each)


def timed_ones(
    values: Iterable[Data | tuple[Data, Data]], timestamp_ms: int
) -> Iterator[TimedRecord]:
    """Make records from values and (key, value) pairs. Raises TypeError."""
    if isinstance(values, str | bytes | Mapping):
        given = type(values).__name__
        raise TypeError(f"values= is a list of values or (key, value) pairs, not a {given}")
    for each in values:
        if isinstance(each, tuple) and len(each) != 2:
            raise TypeError(f"a record is a value or a (key, value) pair, not {each!r}")
        key, value = each if isinstance(each, tuple) else (None, each)
        yield TimedRecord(timestamp_ms, _bytes(key, "key"), _bytes(value, "value"))


def _bytes(data: object, what: str) -> bytes | None:
    if isinstance(data, str):
        return arguments.text(data, f"the {what}").encode()
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    kind = type(data).__name__
    raise TypeError(f"a {what} is bytes, str or None, not {kind}: encode it, as with json.dumps()")


def _batches(records: list[TimedRecord]) -> Iterator[list[TimedRecord]]:
    """Split records into batches within the limits, each with at least one record."""
    piece: list[TimedRecord] = []
    size = 0
    for each in records:
        more = size_of_record(each)
        if piece and (size + more > BATCH_BYTES or len(piece) == BATCH_RECORDS):
            yield piece
            piece, size = [], 0
        piece.append(each)
        size += more
    if piece:
        yield piece


def _decode(into: list[Record], place: _Place, data: bytes, start: int, end: int) -> int:
    """Append the records in [start, end) to `into`; return the offset after the last batch."""
    topic, partition = place
    following = start
    for header in iter_batches(data):
        if not header.is_control:
            into += [
                Record(topic, partition, *each)
                for each in decode_records(data, header)
                if start <= each.offset < end
            ]
        following = max(following, header.next_offset)
    return following


def _no_partition(topic: str, partition: int, count: int) -> str:
    return f"topic '{topic}' has no partition {partition}: it has {count}, numbered from 0"


def _check(error_code: int, what: str) -> None:
    """Raise RequestFailed unless the code is NONE."""
    if error_code:
        raise RequestFailed(f"{what}: {ErrorCode(error_code).name}")
