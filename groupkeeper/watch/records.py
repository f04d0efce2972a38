"""Decodes what Fetch returns of `__consumer_offsets` into the input of the folds of `history`.

    reader = LogReader(partition)
    start, items = reader.feed(data, start)     # GroupRecord, CommitRun, Span by first offset

Fetch with isolation level 0 (read uncommitted). Values of commits are not decoded: a commit shows
that its client was alive, and when. So a commit of a transaction counts when it is written, even if
it is aborted later, and of control batches only the offsets count. The commits of a response for
one partition are one `CommitRun`, unless a record of their group is between them. `newest` has the
last values.

Files are read by `analytics.pipeline.feed`, with the same result. Source: Kafka 4.1,
`GroupCoordinatorRecordSerde`; KIP-98.
"""

from collections import Counter, deque
from itertools import pairwise
from struct import Struct
from typing import Final

from crc32c import crc32c

from groupkeeper.history.coverage import Span
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import GROUP_KEY_TYPE, GroupRecord
from groupkeeper.history.rows import KnownOffsets
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    lone_record,
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
from groupkeeper.watch.commit_heads import VALUE_SIZE, CommitHeads, CommitPlace, CommitStretch
from groupkeeper.watch.response_items import ResponseItems

MOST_KEYS: Final = 100_000
"""Maximum number of decoded keys of commits to keep; if there are more, all are dropped."""
LAST_OFFSET: Final = (1 << 63) - 1
"""The end of a log whose end is not known."""
MOST_LOSSES: Final = 1_000
"""Maximum number of losses of records to remember, the last ones."""

_HEAD: Final = Struct(">qi4xb")
"""Base offset, length and magic of a batch."""
_ONE: Final = Struct(">12xixI6xq26xBBBB")
"""Of a batch of one record: leader epoch, checksum and base timestamp; the first two bytes of its
length, and where the time delta is if the length takes one or two bytes."""
_MORE: Final = 0x80
"""Bit of a byte of a varint that is not the last one."""
_SMALLEST_OLD: Final = 26
"""Size of the smallest message of magic 0, including offset and length."""
_TYPES: Final = frozenset({*KNOWN_TYPES, GROUP_CONFIGS_TYPE, GROUP_SEAT_TYPE})

_OTHER: Final[CommitPlace] = ("", "", -1)
"""Stands for the place of a group that was not asked for."""


def batch_size(data: bytes, position: int) -> int:
    """Return the size of the batch at a position, of which more may be said than is there; 0 if the
    bytes end before its magic. Raises CorruptBatch if no batch has such a size, unless there are
    others before it: it is the first one of the next response.
    """
    if position + _HEAD.size > len(data):
        return 0
    base, length, magic = _HEAD.unpack_from(data, position)
    size: int = length + LENGTH_OVERHEAD
    if size >= (_SMALLEST_OLD if 0 <= magic < MAGIC else HEADER_SIZE):
        return size
    if position:
        return 0
    raise CorruptBatch(f"the batch at offset {base} is said to have {size} bytes")


def _read_header(data: bytes, position: int) -> tuple[BatchHeader | None, str]:
    """Return the header of a whole batch with a correct checksum; for any other batch None, and
    what is wrong.
    """
    base, _, magic = _HEAD.unpack_from(data, position)
    if 0 <= magic < MAGIC:
        return None, f"the batch at offset {base} is of an old format (magic {magic})"
    try:
        header = read_header(data, position)
    except CorruptBatch:
        return None, f"the batch at offset {base} has a damaged header, or is of a later format"
    if not check_crc(data, header):
        return None, f"the batch at offset {base} has a wrong checksum"
    return header, ""


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
        self.epoch = -1
        """Leader epoch of the last record read; -1 if it is unknown."""
        self.newest: dict[CommitPlace, bytes | None] = {}
        """Value of the last commit of the last response for each place; None if it was deleted."""
        self._partition, self._group = partition, group
        self._places: dict[bytes | None, CommitPlace] = {}
        self._heads = CommitHeads()
        self._next = -1
        self._whole_from = 0
        self._has_lost = False
        self._lost_until: deque[int] = deque(maxlen=MOST_LOSSES)

    @property
    def known(self) -> KnownOffsets:
        """The known part of the partition, at the last record read: from the last gap on. An
        earlier gap may have been a compaction; losses are unreadable batches.
        """
        return KnownOffsets(self._whole_from, tuple(self._lost_until))

    def feed(
        self, data: bytes | memoryview, start: int, end: int = LAST_OFFSET
    ) -> tuple[int, list[Fed]]:
        """Decode the whole batches of a response, without records before offset `start`. `end`: of
        the log. Returns the offset to fetch next, which is `start` if no batch is whole, and the
        items. A batch that cannot be decoded is left out, and those behind it are decoded.

        Raises CorruptBatch if the first bytes are no batch: it is not known where the next begins.
        """
        data, items = bytes(data), ResponseItems()
        position, following = 0, start
        while (size := batch_size(data, position)) and position + size <= len(data):
            base, _, _ = _HEAD.unpack_from(data, position)
            last: int | None = base
            if base < start or not self._lone(data, position, items):
                last = self._batch(data, position, start, items)
            if last is None:  # its base offset may be damaged as well
                last = base if following <= base < end else following
            following, position = max(following, last + 1), position + size
        self.newest = items.newest
        return following, items.in_order()

    def commits(self, data: bytes, position: int, since: int = 0) -> CommitStretch:
        """Decode the plain batches of one commit each at a position, up to the first other batch,
        or one that `feed` has to see first: the first after a gap or of another leader epoch, and
        all before offset `since`.
        """
        if self._has_lost or self._next < since:
            return CommitStretch(position)
        found = self._heads.read(data, position, self._next, self.epoch)
        self.records += found.next_offset - found.first_offset
        self._next = found.next_offset
        return found

    # -- batches ---------------------------------------------------------------------------------

    def _lone(self, data: bytes, position: int, items: ResponseItems) -> bool:
        """Add the record of a plain batch of one, which has the time of the batch; False for any
        other, and for a wrong checksum.

        A short cut for most batches, which takes a third of the time.
        """
        found = lone_record(data, position)
        if found is None:
            return False
        end, offset, key, value = found
        epoch, crc, ms, first, second, *deltas = _ONE.unpack_from(data, position)
        is_longer = first >= _MORE
        if deltas[is_longer] or (is_longer and second >= _MORE):
            return False
        if crc32c(data[position + CRC_START : end]) != crc:
            return False
        records = [Record(offset, ms, key, value, ())]
        self.records += 1
        self._cover(epoch, records, items)
        self._read(epoch, offset, records, items)
        place = self._places.get(key)
        if place is not None and value is not None and len(value) == VALUE_SIZE:
            self._heads.learn(data, position, end, place)
        return True

    def _batch(self, data: bytes, position: int, start: int, items: ResponseItems) -> int | None:
        """Add the records of a batch: all of them, or none if one cannot be told apart. Returns the
        last offset of the batch; None if its header is damaged or of another format.
        """
        header, problem = _read_header(data, position)
        if header is None:
            self._lose(problem)
            return None
        base = header.base_offset
        try:
            records = [*decode_records(data, header)]
        except CorruptBatch as problem:
            self._lose(f"offset {base}: {problem}")
            return header.last_offset
        if base < start:
            records = [each for each in records if each.offset >= start]
        if records:
            self.records += len(records)
            self._cover(header.leader_epoch, records, items)
            if not header.is_control:
                self._read(header.leader_epoch, base, records, items)
        return header.last_offset

    def _lose(self, error: str) -> None:
        self._has_lost = True
        self._skip(error)

    def _skip(self, error: str) -> None:
        self.unreadable += 1
        self.first_error = self.first_error or f"partition {self._partition}: {error}"

    def _cover(self, epoch: int, records: list[Record], items: ResponseItems) -> None:
        """Note which offsets were read, and where one is missing."""
        first, last, whole = records[0], records[-1], records[0]
        if last.offset - first.offset >= len(records):
            for before, after in pairwise(records):
                if after.offset != before.offset + 1:
                    whole = after
        is_whole = whole is first and first.offset == self._next
        if not is_whole:
            self._whole_from = whole.offset
        if self._has_lost:
            self._lost_until.append(first.offset)
            self._has_lost = False
        self._next, self.epoch = last.offset + 1, epoch
        if not (is_whole and items.covers(epoch, last, len(records))):
            items.cover(
                Span(
                    *(first.offset, last.offset, whole.offset, whole.timestamp_ms),
                    *(None if epoch < 0 else epoch, first.timestamp_ms, last.timestamp_ms),
                    len(records),
                )
            )

    # -- records ---------------------------------------------------------------------------------

    def _read(self, epoch: int, batch: int, records: list[Record], items: ResponseItems) -> None:
        """Add the records of a batch; its base offset is its number."""
        runs, places, newest = items.runs, self._places, items.newest
        for record in records:  # nearly all are commits with a key that was seen before
            offset, ms, key, value, _ = record
            run = runs.get(key)
            if run is None:
                place = places.get(key)
                if place is None:
                    place = self._decoded(epoch, batch, record, items)
                if place is _OTHER:
                    continue
                newest[place] = value
                if value is not None:
                    items.begin(key, place, offset, ms, epoch)
            else:
                newest[run.place] = value
                if value is not None:
                    run.add(offset, ms)

    def _decoded(self, epoch: int, batch: int, record: Record, items: ResponseItems) -> CommitPlace:
        """Return the place of a commit; add any other record to `items`."""
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
            about = epoch, batch, key_type, group
            whole_key = None if key_type == GROUP_KEY_TYPE else key
            items.add(
                GroupRecord(record.offset, record.timestamp_ms, *about, whole_key, record.value)
            )
        return _OTHER

    def _remembered(self, key: bytes, found: OffsetCommitKey) -> CommitPlace:
        if len(self._places) >= MOST_KEYS:
            self._places.clear()
        is_wanted = self._group in (None, found.group)
        place = (found.group, found.topic, found.partition) if is_wanted else _OTHER
        self._places[key] = place
        return place
