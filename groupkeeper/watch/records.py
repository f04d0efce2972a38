"""Decodes what Fetch returns of `__consumer_offsets` into the input of the folds of `history`.

    reader = LogReader(partition)
    start, items = reader.feed(data, start)     # GroupRecord, CommitRun, Span by first offset

Fetch with isolation level 0 (read uncommitted). Values of commits are not decoded: a commit shows
that its client was alive, and when. So a commit of a transaction counts when it is written, even if
it is aborted later, and of control batches only the offsets count. The commits of a response for
one partition are one `CommitRun`, unless a record of their group is between them.

Files are read by `analytics.pipeline.feed`, with the same result. Source: Kafka 4.1,
`GroupCoordinatorRecordSerde`; KIP-98.
"""

from collections import Counter, deque
from itertools import pairwise
from operator import itemgetter
from struct import Struct
from typing import Final

from groupkeeper.history.coverage import Span
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import GROUP_KEY_TYPE, CommitRun, GroupRecord
from groupkeeper.history.rows import KnownOffsets
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
)
from groupkeeper.protocol.records.consumer_offsets import (
    GROUP_CONFIGS_TYPE,
    GROUP_SEAT_TYPE,
    GroupConfigsKey,
    GroupMetadataKey,
    OffsetCommitKey,
    UnknownKey,
    decode_key,
)
from groupkeeper.protocol.records.modern_groups import KNOWN_TYPES, decode_modern_key

MOST_KEYS: Final = 100_000
"""Maximum number of decoded keys of commits to keep; if there are more, all are dropped."""
MOST_LOSSES: Final = 1_000
"""Maximum number of losses of records to remember, the last ones."""

_HEAD: Final = Struct(">qi4xb")
"""Base offset, length and magic of a batch."""
_SMALLEST_OLD: Final = 26
"""Size of the smallest message of magic 0, including offset and length."""
_TYPES: Final = frozenset({*KNOWN_TYPES, GROUP_CONFIGS_TYPE, GROUP_SEAT_TYPE})

_Place = tuple[str, str, int]
"""Group, topic and partition of a commit."""
_OTHER: Final[_Place] = ("", "", -1)
"""Stands for the place of a group that was not asked for."""


class LogReader:
    """Decodes one partition from responses in the order of offsets. What cannot be decoded is
    counted, with the first error.
    """

    def __init__(self, partition: int, group: str | None = None) -> None:
        """`group`: return the records and commits of this group only; spans are of all records."""
        self.records = 0
        """Number of records read, of any kind."""
        self.unknown: Counter[int] = Counter()
        """Number of records per key type that this version does not know."""
        self.unreadable = 0
        """Number of records with an unreadable key, and of unreadable batches."""
        self.first_error = ""
        self._partition, self._group = partition, group
        self._places: dict[bytes | None, _Place] = {}
        self._next = -1
        self._whole_from = 0
        self._has_lost = False
        self._lost_until: deque[int] = deque(maxlen=MOST_LOSSES)

    @property
    def known(self) -> KnownOffsets:
        """How far the partition is known at the last record read: from the last gap on. An earlier
        gap may have been a compaction; losses are unreadable batches.
        """
        return KnownOffsets(self._whole_from, tuple(self._lost_until))

    def feed(self, data: bytes | memoryview, start: int) -> tuple[int, list[Fed]]:
        """Decode the whole batches of a response, without records before offset `start`. Returns
        the offset to fetch next, which is `start` if no batch is whole, and the items.

        Raises CorruptBatch for bytes that are no batch.
        """
        data, piece = bytes(data), _Piece()
        position, following = 0, start
        while position + _HEAD.size <= len(data):
            base, length, magic = _HEAD.unpack_from(data, position)
            size = length + LENGTH_OVERHEAD
            if position + size > len(data):
                break
            if 0 <= magic < MAGIC and size >= _SMALLEST_OLD:
                self._lose(f"the batch at offset {base} is of an old format (magic {magic})")
                following, position = max(following, base + 1), position + size
                continue
            header = read_header(data, position)
            self._batch(data, header, start, piece)
            following, position = max(following, header.next_offset), header.end
        return following, piece.items()

    # -- batches ---------------------------------------------------------------------------------

    def _batch(self, data: bytes, header: BatchHeader, start: int, piece: "_Piece") -> None:
        """Add the records of a batch: all of them, or none if one cannot be told apart."""
        if not check_crc(data, header):
            self._lose(f"the batch at offset {header.base_offset} has a wrong checksum")
            return
        try:
            records = [*decode_records(data, header)]
        except CorruptBatch as problem:
            self._lose(f"offset {header.base_offset}: {problem}")
            return
        if header.base_offset < start:
            records = [each for each in records if each.offset >= start]
        if not records:
            return
        self.records += len(records)
        self._cover(header.leader_epoch, records, piece)
        if not header.is_control:
            self._read(header, records, piece)

    def _lose(self, error: str) -> None:
        self._has_lost = True
        self._skip(error)

    def _skip(self, error: str) -> None:
        self.unreadable += 1
        self.first_error = self.first_error or f"partition {self._partition}: {error}"

    def _cover(self, epoch: int, records: list[Record], piece: "_Piece") -> None:
        """Note which offsets were read, and where one is missing."""
        first, last, whole = records[0], records[-1], records[0]
        if last.offset - first.offset >= len(records):
            for before, after in pairwise(records):
                if after.offset != before.offset + 1:
                    whole = after
        if whole is not first or first.offset != self._next:
            self._whole_from = whole.offset
        if self._has_lost:
            self._lost_until.append(first.offset)
            self._has_lost = False
        self._next = last.offset + 1
        piece.cover(
            Span(
                *(first.offset, last.offset, whole.offset, whole.timestamp_ms),
                *(None if epoch < 0 else epoch, first.timestamp_ms, last.timestamp_ms),
                len(records),
            )
        )

    # -- records ---------------------------------------------------------------------------------

    def _read(self, header: BatchHeader, records: list[Record], piece: "_Piece") -> None:
        runs, places = piece.runs, self._places
        for record in records:  # nearly all are commits with a key that was seen before
            offset, ms, key, value, _ = record
            run = runs.get(key)
            if run is None:
                place = places.get(key)
                if place is None:
                    place = self._decoded(header, record, piece)
                if place is not _OTHER and value is not None:
                    piece.begin(key, place, offset, ms)
            elif value is not None:
                run.add(offset, ms)

    def _decoded(self, header: BatchHeader, record: Record, piece: "_Piece") -> _Place:
        """Return the place of a commit; add any other record to `piece`."""
        key = record.key or b""
        try:
            found = decode_key(key)
            if isinstance(found, OffsetCommitKey):
                return self._remembered(key, found)
            if isinstance(found, UnknownKey):
                modern = decode_modern_key(key)
                key_type, group = found.key_type, None if modern is None else modern.group
            else:
                is_group = isinstance(found, GroupMetadataKey)
                key_type = GROUP_KEY_TYPE if is_group else GROUP_CONFIGS_TYPE
                is_read = is_group or isinstance(found, GroupConfigsKey)
                group = found.group if is_read else None
        except DecodeError as error:
            self._skip(f"offset {record.offset}: unreadable key: {error}")
            return _OTHER
        if key_type not in _TYPES:
            self.unknown[key_type] += 1
        elif group is not None and self._group in (None, group):
            about = header.leader_epoch, header.base_offset, key_type, group
            whole_key = None if key_type == GROUP_KEY_TYPE else key
            piece.add(
                GroupRecord(record.offset, record.timestamp_ms, *about, whole_key, record.value)
            )
        return _OTHER

    def _remembered(self, key: bytes, found: OffsetCommitKey) -> _Place:
        if len(self._places) >= MOST_KEYS:
            self._places.clear()
        is_wanted = self._group in (None, found.group)
        place = (found.group, found.topic, found.partition) if is_wanted else _OTHER
        self._places[key] = place
        return place


class _Piece:
    """The items of one response."""

    def __init__(self) -> None:
        self.runs: dict[bytes | None, _Run] = {}
        """Runs that may go on, by the key of their commits."""
        self._of_group: dict[str, list[bytes | None]] = {}
        """Group -> keys in `runs`."""
        self._records: list[GroupRecord] = []
        self._ended: list[CommitRun] = []
        self._spans: list[Span] = []

    def begin(self, key: bytes | None, place: _Place, offset: int, ms: int) -> None:
        """Begin a run with its first commit."""
        self.runs[key] = _Run(place, offset, ms)
        self._of_group.setdefault(place[0], []).append(key)

    def add(self, record: GroupRecord) -> None:
        """Add a record about a group; that of a classic group ends its runs."""
        self._records.append(record)
        if record.key_type == GROUP_KEY_TYPE:
            for key in self._of_group.pop(record.group, ()):
                self._ended.append(self.runs.pop(key).ended())

    def cover(self, span: Span) -> None:
        """Add the span of a batch, joined to the last one of the same epoch."""
        last = self._spans[-1] if self._spans else None
        if last is None or last.leader_epoch != span.leader_epoch:
            self._spans.append(span)
            return
        is_next = span.whole_from == span.first_offset == last.last_offset + 1
        whole = last if is_next else span
        self._spans[-1] = last._replace(
            last_offset=span.last_offset,
            whole_from=whole.whole_from,
            whole_ms=whole.whole_ms,
            last_ms=span.last_ms,
            records=last.records + span.records,
        )

    def items(self) -> list[Fed]:
        """Return all items by their first offset; a record comes before a span that it begins."""
        runs = (*self._ended, *(each.ended() for each in self.runs.values()))
        return sorted((*self._records, *runs, *self._spans), key=itemgetter(0))


class _Run:
    """A `CommitRun` that may go on."""

    __slots__ = (
        *("_commits", "_first_ms", "_first_offset", "_last_ms", "_last_offset", "_latest_ms"),
        *("_longest_ms", "_place"),
    )

    def __init__(self, place: _Place, offset: int, ms: int) -> None:
        self._place, self._commits, self._longest_ms = place, 1, 0
        self._first_offset = self._last_offset = offset
        self._first_ms = self._last_ms = self._latest_ms = ms

    def add(self, offset: int, ms: int) -> None:
        """Add the next commit."""
        pause = ms - self._last_ms
        self._last_offset, self._last_ms = offset, ms
        self._commits += 1
        self._longest_ms = max(self._longest_ms, pause)
        if ms > self._latest_ms:
            self._latest_ms = ms
        elif ms < self._first_ms:
            self._first_ms = ms

    def ended(self) -> CommitRun:
        """Return the run."""
        group, topic, partition = self._place
        return CommitRun(
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            group=group,
            topic=topic,
            partition=partition,
            first_ms=self._first_ms,
            last_ms=self._latest_ms,
            commits=self._commits,
            longest_ms=self._longest_ms,
        )
