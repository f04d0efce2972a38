"""A log on disk that does what logs do while they are read, and knows what it was told. For tests.

Every record is an offset commit of its own log offset, so a row tells where it is from.
"""

import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from groupkeeper.protocol.record_batch import decode_records, read_header
from tests.analytics.logs import HORIZON, batch, commit, index_of, record, write_segment

NAME = "__consumer_offsets-3"


class GrowingLog:
    """One partition. `offsets` are all that were ever written."""

    def __init__(self, data: Path, *, archives: bool = False, is_brokers: bool = False) -> None:
        """`is_brokers`: compaction leaves no empty batch at the end of a segment."""
        self.folder = data / NAME
        self.archive = data / "archive" / NAME
        self.archives = archives
        self.is_brokers = is_brokers
        self.end = 0
        self.epoch = 1
        self.deleted: set[int] = set()
        """Offsets of removed segments."""
        self.compacted: set[int] = set()
        """Offsets that no segment holds any more, if no archive does."""
        self._segments: dict[int, list[bytes]] = {0: []}
        self._raw = {0}
        self._torn = b""
        self._unfinished: tuple[int, list[int]] | None = None
        write_segment(self.folder, 0, b"")

    @property
    def active(self) -> int:
        return max(self._segments)

    # -- what the server does --------------------------------------------------------------------

    def append(self, *counts: int) -> None:
        """Batches of so many records. A torn one is finished first."""
        self.restart()
        for count in counts:
            self._write(self._batch(count))

    def tear(self, size: int) -> None:
        """A batch of which only the first bytes are there yet."""
        self.restart()
        self._torn = self._batch(2)
        with self._path(self.active).open("ab") as file:
            file.write(self._torn[: min(size, len(self._torn) - 1)])

    def restart(self) -> None:
        """Cut off what is torn; an interrupted compaction is finished."""
        self.finish_swap()
        if self._torn:
            whole = sum(map(len, self._segments[self.active]))
            os.truncate(self._path(self.active), whole)
            self._torn = b""

    def claim(self) -> None:
        self.epoch += 1

    def roll(self) -> None:
        if self._segments[self.active]:
            self.restart()
            self._index(self.active)
            self._segments[self.end] = []
            self._raw.add(self.end)
            self._path(self.end).touch()

    def compact(self, keep: int, most: int = 9, *, stop: bool = False) -> None:
        """Merge the first finished segments, and leave every `keep`-th record of them. `stop`: the
        new segment does not come into its place before `finish_swap`.
        """
        self.finish_swap()
        bases = sorted(self._segments)[:-1][:most]
        if not bases:
            return
        before = [data for base in bases for data in self._segments[base]]
        made = [self._cleaned(data, keep) for data in before]
        is_kept = [bool(offsets_in(data)) for data in made]
        is_kept[-1] |= not self.is_brokers
        made = [data for data, stays in zip(made, is_kept, strict=True) if stays]
        if self.archives:
            self._link(self._raw.intersection(bases))
        else:
            self.compacted |= {*_offsets(before)} - {*_offsets(made)}
        swap = self._path(bases[0]).with_suffix(".log.swap")
        swap.write_bytes(b"".join(made))
        for base in bases:
            self._raw.discard(base)
        self._unfinished = bases[0], made
        for base in bases[1:]:
            del self._segments[base]
            self._remove(base)
        if not stop:
            self.finish_swap()

    def _link(self, bases: Iterable[int]) -> None:
        self.archive.mkdir(parents=True, exist_ok=True)
        for base in bases:
            for source in self.folder.glob(f"{base:020d}.*"):
                os.link(source, self.archive / source.name)

    def finish_swap(self) -> None:
        if self._unfinished is not None:
            base, made = self._unfinished
            self._segments[base] = made
            self._path(base).with_suffix(".index").unlink(missing_ok=True)
            self._path(base).with_suffix(".log.swap").replace(self._path(base))
            self._index(base)
            self._unfinished = None

    def delete_first(self) -> None:
        """Retention."""
        self.finish_swap()
        if len(self._segments) > 1:
            base = min(self._segments)
            behind = sorted(self._segments)[1]
            self.deleted |= set(range(behind))
            del self._segments[base]
            self._raw.discard(base)
            self._remove(base)
            shutil.rmtree(self.archive, ignore_errors=True)

    def index_active(self) -> None:
        """As a recovery point does."""
        self._index(self.active)

    # -- the files -------------------------------------------------------------------------------

    def _path(self, base: int) -> Path:
        return self.folder / f"{base:020d}.log"

    def _remove(self, base: int) -> None:
        for suffix in (".index", ".log"):
            self._path(base).with_suffix(suffix).unlink(missing_ok=True)

    def _index(self, base: int) -> None:
        data = index_of(self._segments[base], base, every=3)
        self._path(base).with_suffix(".index").write_bytes(data)

    def _batch(self, count: int) -> bytes:
        records = [commit("g", "t", 0, self.end + number) for number in range(count)]
        data = batch(records, self.end)
        return data[:12] + struct.pack(">i", self.epoch) + data[16:]

    def _write(self, data: bytes) -> None:
        self._segments[self.active].append(data)
        self.end = max(offsets_in(data)) + 1
        with self._path(self.active).open("ab") as file:
            file.write(data)

    def _cleaned(self, data: bytes, keep: int) -> bytes:
        """The batch without most of its records."""
        base = struct.unpack_from(">q", data)[0]
        offsets = [offset for offset in offsets_in(data) if offset % keep == 0]
        if offsets == list(offsets_in(data)):
            return data
        last = struct.unpack_from(">i", data, 23)[0]
        payload = b"".join(record(o - base, *commit("g", "t", 0, o)) for o in offsets)
        made = batch([None] * len(offsets), base, HORIZON, payload=payload, last_delta=last)
        return made[:12] + data[12:16] + made[16:]


def offsets_in(data: bytes) -> list[int]:
    """Of the records of a batch."""
    return [each.offset for each in decode_records(data, read_header(data))]


def _offsets(batches: Iterable[bytes]) -> Iterator[int]:
    for data in batches:
        yield from offsets_in(data)
