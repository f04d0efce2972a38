"""The journals of a data directory: of this process, of its earlier runs, and of other nodes.

Decides when a journal can be removed. journal.py reads and writes one file, store.py has the logs.

Every journal begins with the newest epoch of every shard that its node has ever claimed. So an
older journal can be removed without reading the lease files, which therefore need no sync.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Self, TypeVar

from groupkeeper.storage.errors import AppendFailed
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.journal.format import claim_entry, mark_entry
from groupkeeper.storage.journal.journal import FOLDER, JournalReader, JournalWriter, node_of
from groupkeeper.storage.recovery.marks import Mark, newest

K = TypeVar("K")
V = TypeVar("V")


class JournalCover:
    """The finished batches of one log in all journals, in offset order. Use in a `with` block."""

    def __init__(
        self,
        readers: Sequence[JournalReader],
        closing: ExitStack,
        name: str,
        mark: Mark | None,
        missing_epochs: range,
    ) -> None:
        self._closing = closing
        self.missing_epochs = missing_epochs
        """Epochs whose batches went through a journal that is missing."""
        self._entries = [(*entry, reader) for reader in readers for entry in reader.entries(name)]
        self._entries.sort(key=lambda entry: entry[0])
        self.first = self._entries[0][0] if self._entries else None
        """The first offset in the journals, or None."""
        self.mark = newest(mark, *(reader.marks.get(name) for reader in readers))
        """How far the log was on disk without the journals."""
        self.end = max((reader.ends.get(name, 0) for reader in readers), default=0)
        """The offset that the log must reach with the journals."""
        lacking = [
            reader
            for at, reader in enumerate(readers)
            # A process that has written to the log since then had recovered it.
            if reader.lacks(name) and not any(name in later.names for later in readers[at + 1 :])
        ]
        touched = [reader for reader in readers if reader.damage and self.end]
        self.may_lack = bool(lacking)
        """Whether a damaged journal may have contained more of the log than is known."""
        self.damage = "; ".join(line for reader in lacking or touched for line in reader.damage)
        """Description of the damage to the journals; empty if there is none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def reaches(self, first: int, end: int) -> bool:
        """Return whether `end` is beyond `first` and the journals have all offsets in between."""
        if end <= first:
            return False
        for base, last, *_ in self._entries:
            if base <= first <= last:
                first = last + 1
        return first >= end

    def last(self) -> tuple[int, bytes] | None:
        """Return the base offset and the bytes of the last batch, or None."""
        if not self._entries:
            return None
        base, _, position, size, reader = self._entries[-1]
        return base, reader.batch(position, size)

    def within(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the batches with offsets from `first` up to `end`, without duplicates."""
        for base, last, position, size, reader in self._entries:
            if first <= base and last < end:
                first = last + 1
                yield reader.batch(position, size)

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """Yield the batches whose last offset is at least `offset`, without duplicates."""
        for _, last, position, size, reader in self._entries:
            if last >= offset:
                offset = last + 1
                yield reader.batch(position, size)


class Journals:
    """The `journals` folder: flushes are written to it, and logs recovered from it.

    One thread writes flushes. Meanwhile another may call `known_epoch`, `claimed`, `cover` and
    `recovered`. Attributes used by both are changed by only one of them, in single steps.
    """

    def __init__(self, files: Files, data_dir: str, node_id: int, roll_bytes: int) -> None:
        self._files = files
        self._folder = f"{data_dir}/{FOLDER}"
        self._node_id = node_id
        self._roll_bytes = roll_bytes
        self._writer: JournalWriter | None = None
        self._writers: tuple[JournalWriter, ...] = ()
        """The current writer, after those whose logs are not all synced yet."""
        self._next_flush = 1
        self._epochs: dict[int, int] = {}
        self._marks: dict[str, Mark] = {}
        self._unwritten_marks: dict[str, Mark] = {}
        self._ends: dict[str, int] = {}
        self.repairs: list[str] = []
        """Messages about damaged or unfinished journals of earlier runs."""
        self._unwritten_claims: dict[int, int] = {}
        """Epochs by shard that were claimed since the last flush."""
        self._earlier: dict[JournalReader, set[str]] = {}
        """Journals of earlier runs, with their logs that have not been recovered yet."""
        self._foreign: dict[str, JournalReader] = {}
        """Journals of other nodes by file name."""
        self._removable: tuple[Sequence[JournalWriter], Sequence[JournalReader]] = (), ()
        """Journals that no log needed any more when the last flush was written."""
        self._empty: list[str] = []
        """Messages about journals of earlier runs that a crash or damage left without a flush."""
        self._read_own()

    def _read_own(self) -> None:
        try:
            for name in self._names(own=True):
                path = f"{self._folder}/{name}"
                self._take_earlier(JournalReader(self._files, path, go_on=True))
        except BaseException:
            self._close_readers()
            raise

    def _take_earlier(self, reader: JournalReader) -> None:
        self._next_flush = max(self._next_flush, reader.next_flush)
        for shard, epoch in reader.epochs.items():
            self._epochs[shard] = max(epoch, self._epochs.get(shard, 0))
        for name, mark in reader.marks.items():
            self._marks[name] = newest(mark, self._marks.get(name)) or mark
        for name, end in reader.last_ends().items():
            self._ends[name] = max(end, self._ends.get(name, 0))
        self.repairs += reader.damage
        self.repairs += [reader.torn] if reader.torn else []
        if reader.is_empty:
            self._empty.append(f"{reader.path} holds no flush")
            reader.drop()  # nothing in it was acknowledged
        else:
            self._earlier[reader] = reader.names

    @property
    def are_in_place(self) -> bool:
        """False once a journal of this process was removed or replaced."""
        return all(writer.is_in_place for writer in self._writers)

    def _names(self, *, own: bool) -> list[str]:
        names = [(node_of(name), name) for name in self._files.list_folder(self._folder)]
        return [n for node, n in names if node is not None and (node == self._node_id) is own]

    def _read_foreign(self) -> None:
        """Bring the journals of other nodes up to date.

        Known files are read from where the last reading ended: every claim at start-up calls this,
        and the file of a node that no longer runs may be full.
        """
        names = self._names(own=False)
        for name in self._foreign.keys() - set(names):
            self._foreign.pop(name).close()
        for name in names:
            if name in self._foreign:
                self._foreign[name].read_on()
                continue
            # If its owner has just removed it, all its batches are in the segments.
            with suppress(FileNotFoundError):
                path = f"{self._folder}/{name}"
                reader = self._foreign[name] = JournalReader(self._files, path, go_on=True)
                self.repairs += reader.damage

    def known_epoch(self, shard: int) -> int:
        """Return the newest epoch of a shard in any journal, including those of other nodes.

        Call this while the shard is locked, so that its last owner writes no more.
        """
        self._read_foreign()
        epochs = [reader.epochs.get(shard, 0) for reader in self._foreign.values()]
        return max([self._epochs.get(shard, 0), *epochs])

    def names(self) -> set[str]:
        """Return the logs with batches in journals of earlier runs and of other nodes."""
        readers = [*self._earlier, *self._foreign.values()]
        return {name for reader in readers for name in reader.names}

    def told_names(self) -> set[str]:
        """Return the logs named in any journal: those that flushes have been written to."""
        self._read_foreign()
        foreign = (name for reader in self._foreign.values() for name in reader.last_ends())
        return self.names() | self._ends.keys() | set(foreign)

    def tells_of(self, name: str) -> bool:
        """Return whether a log is in `told_names`, judging by the journals read so far."""
        foreign = any(name in reader.last_ends() for reader in list(self._foreign.values()))
        return name in self._ends or foreign or name in self.names()

    def known_shards(self) -> int:
        """Return the highest shard in any journal plus one; 0 if no journal has a claim."""
        self._read_foreign()
        foreign = self._foreign.values()
        shards = [*self._epochs, *(shard for reader in foreign for shard in reader.epochs)]
        return max(shards, default=-1) + 1

    def claimed(self, shard: int, epoch: int) -> None:
        """Make a claim durable with the next flush."""
        self._epochs[shard] = epoch
        # In this order: a flush that begins a journal writes all epochs.
        self._unwritten_claims[shard] = epoch

    def write(self, pieces: Sequence[bytes], ends: Mapping[str, int]) -> None:
        """Make a flush durable. `ends` are the next offsets of its logs.

        Raises AppendFailed or SyncFailed: see `JournalWriter.write`.
        """
        writer = self._writer
        if writer is None or writer.size >= self._roll_bytes:
            writer = self._roll()
        done = self._done()  # before the marks are taken, so that theirs are among them
        new_claims = _take_all(self._unwritten_claims)
        new_marks = _take_all(self._unwritten_marks)
        claims = sorted((new_claims if writer.size else self._epochs.copy()).items())
        claim_pieces = [piece for claim in claims for piece in claim_entry(*claim)]
        marks = new_marks if writer.size else self._marks.copy()
        mark_pieces = [piece for mark in marks.items() for piece in mark_entry(*mark)]
        writer.touched.update(dict.fromkeys(ends))
        try:
            writer.write([*claim_pieces, *mark_pieces, *pieces], ends, claim_pieces)
        except BaseException:
            for shard, epoch in new_claims.items():
                self._unwritten_claims.setdefault(shard, epoch)
            for name, mark in new_marks.items():
                self._unwritten_marks.setdefault(name, mark)
            raise
        self._next_flush = writer.next_flush
        self._ends.update(ends)
        self._removable = done

    def _roll(self) -> JournalWriter:
        if self._writer is not None and not self._writer.size:
            return self._writer  # its first flush failed
        try:
            writer = JournalWriter(
                self._files, self._folder, self._node_id, self._next_flush, dict(self._ends)
            )
        except OSError as error:
            raise AppendFailed(f"cannot begin a journal in {self._folder}: {error}") from error
        self._writers = (*self._writers, writer)
        self._writer = writer
        return writer

    def cover(self, name: str, missing_epochs: range) -> JournalCover:
        """Return the batches of a log in all journals, for opening the log.

        No flush may be written to the log meanwhile, so that no journal with its batches is
        removed. `missing_epochs` are in the lease, but in no journal.
        """
        with ExitStack() as stack:
            own = [
                stack.enter_context(closing(JournalReader(self._files, writer.path, writer.size)))
                for writer in self._writers
                if name in writer.touched
            ]
            readers = [*self._earlier, *self._foreign.values(), *own]
            mark = self._marks.get(name)
            cover = JournalCover(readers, stack.pop_all(), name, mark, missing_epochs)
        if missing_epochs and not cover.damage:
            cover.damage = "; ".join(self._empty)
        return cover

    def recovered(self, name: str, mark: Mark | None) -> None:
        """Record that a log was opened and all its batches are on disk in its folder."""
        self._note_mark(name, mark)
        for writer in self._writers:
            writer.touched.pop(name, None)
        for names in list(self._earlier.values()):
            names.discard(name)

    def _note_mark(self, name: str, mark: Mark | None) -> None:
        """Make a mark durable with the next flush, before bytes are written after it."""
        if mark is not None and mark != self._marks.get(name):
            self._marks[name] = mark
            self._unwritten_marks[name] = mark  # after `_marks`: see `claimed`

    def marked(self, name: str, mark: Mark) -> None:
        """Record a mark of a log, unless a newer one is known."""
        self._note_mark(name, newest(self._marks.get(name), mark))

    def waiting_for(self) -> list[str]:
        """Return the logs to be synced before full journals can be removed, oldest first."""
        return [name for writer in self._retiring() for name in list(writer.touched)]

    def synced(self, name: str, mark: Mark | None) -> None:
        """Record that all of a log is on disk in its folder, so that it needs no full journal."""
        self._note_mark(name, mark)
        for writer in self._retiring():
            writer.touched.pop(name, None)

    def drop_done(self) -> None:
        """Remove the journals that no log needed any more when the last flush was written.

        That flush put the epochs and the marks of the logs into the current journal. Without its
        mark, a synced log would be written to again, and a torn write could damage batches that are
        in no journal any more.
        """
        writers, readers = self._removable
        self._removable = (), ()
        for writer in writers:
            self._writers = tuple(other for other in self._writers if other is not writer)
            writer.drop()
        for reader in readers:
            del self._earlier[reader]
            reader.drop()

    def _done(self) -> tuple[Sequence[JournalWriter], Sequence[JournalReader]]:
        """Return the journals that no log needs any more."""
        writers = [writer for writer in self._retiring() if not writer.touched]
        return writers, [reader for reader, names in self._earlier.items() if not names]

    def close(self, *, clean: bool) -> None:
        """Close the files.

        `clean`: all logs of this process are synced, so the journals that no log of an earlier run
        needs are replaced by one with only the epochs.
        """
        try:
            if clean:
                self._leave_epochs()
        finally:
            self._close_readers()
            for writer in self._writers:
                writer.close()

    def _leave_epochs(self) -> None:
        if self._epochs:
            self._roll()
        else:
            self._writer = None
        for writer in self._retiring():
            writer.touched.clear()
        if self._epochs:
            self.write((), {})
        else:
            self._removable = self._done()
        self.drop_done()

    def _retiring(self) -> list[JournalWriter]:
        return [writer for writer in self._writers if writer is not self._writer]

    def _close_readers(self) -> None:
        for reader in [*self._earlier, *self._foreign.values()]:
            reader.close()


def _take_all(items: dict[K, V]) -> dict[K, V]:
    """Empty a dictionary that another thread may add to meanwhile; return its contents."""
    taken: dict[K, V] = {}
    while items:
        key, value = items.popitem()
        taken[key] = value
    return taken
