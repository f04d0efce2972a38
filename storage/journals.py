"""
All journals of a data directory as one process sees them: the one it writes, those it waits to
drop, those of its earlier runs and those of other nodes.

Knows names of logs and epochs of shards, and which journal may go when. The bytes of one file are
journal.py's, the logs are store.py's.

Every journal begins with the newest epoch of every shard its node ever claimed. So an older file
can go without a look at the lease files, which therefore need no sync.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Self

from groupkeeper.storage.errors import AppendFailed
from groupkeeper.storage.files import Files
from groupkeeper.storage.journal import FOLDER, JournalReader, JournalWriter, node_of
from groupkeeper.storage.journal_format import claim_entry, mark_entry
from groupkeeper.storage.marks import Mark, newest


class Held:
    """What the journals hold for one log, oldest first: the `Cover` that `Log.open` asks for."""

    def __init__(
        self,
        readers: Sequence[JournalReader],
        closing: ExitStack,
        name: str,
        mark: Mark | None = None,
        missing_epochs: range = range(0),
    ) -> None:
        self._closing = closing
        self.missing_epochs = missing_epochs
        self._entries = [(*entry, reader) for reader in readers for entry in reader.entries(name)]
        self._entries.sort(key=lambda entry: entry[0])
        self.first = self._entries[0][0] if self._entries else None
        """The first offset that is held."""
        self.mark = newest(mark, *(reader.marks.get(name) for reader in readers))
        self.end = max((reader.ends.get(name, 0) for reader in readers), default=0)
        """The log reached this offset at least."""
        lacking = [
            reader
            for at, reader in enumerate(readers)
            # Whoever has written to the log since has been told about it.
            if reader.lacks(name) and not any(name in later.names for later in readers[at + 1 :])
        ]
        touched = [reader for reader in readers if reader.damage and self.end]
        self.may_lack = bool(lacking)
        """The journals may have held more, and nobody knows up to where."""
        self.damage = "; ".join(line for reader in lacking or touched for line in reader.damage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def reaches(self, first: int, end: int) -> bool:
        """Whether there is anything from offset `first` up to `end`, and all of it is held."""
        if end <= first:
            return False
        for base, last, *_ in self._entries:
            if base <= first <= last:
                first = last + 1
        return first >= end

    def last(self) -> tuple[int, bytes] | None:
        """The last batch held, behind its base offset."""
        if not self._entries:
            return None
        base, _, position, size, reader = self._entries[-1]
        return base, reader.batch(position, size)

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """The batches that end at `offset` or later. One held twice comes once."""
        for _, last, position, size, reader in self._entries:
            if last >= offset:
                offset = last + 1
                yield reader.batch(position, size)


class Journals:
    """
    The `journals` folder. Rounds are written through it, and logs recovered from it.

    One thread writes rounds. Meanwhile one other may claim and recover: `known_epoch`, `claimed`,
    `held` and `recovered`. What both use, one of them changes, in single steps.
    """

    def __init__(self, files: Files, data_dir: str, node_id: int, roll_bytes: int) -> None:
        self._files = files
        self._folder = f"{data_dir}/{FOLDER}"
        self._node_id = node_id
        self._roll_bytes = roll_bytes
        self._writer: JournalWriter | None = None
        self._writers: tuple[JournalWriter, ...] = ()
        """The one that is written to, and before it those that wait for their logs."""
        self._next_round = 1
        self._epochs: dict[int, int] = {}
        self._marks: dict[str, Mark] = {}
        self._unwritten_marks: dict[str, Mark] = {}
        self._ends: dict[str, int] = {}
        self.repairs: list[str] = []
        """What was damaged or unfinished in the journals of earlier runs, a line each."""
        self._unsettled: dict[int, int] = {}
        """The claims since the last round."""
        self._earlier: dict[JournalReader, set[str]] = {}
        self._foreign: dict[str, JournalReader] = {}
        self._empty: list[str] = []
        """Journals of earlier runs without a round, a line each: a crash leaves one, and damage."""
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
        self._next_round = max(self._next_round, reader.next_round)
        for shard, epoch in reader.epochs.items():
            self._epochs[shard] = max(epoch, self._epochs.get(shard, 0))
        for name, mark in reader.marks.items():
            self._marks[name] = newest(mark, self._marks.get(name)) or mark
        for name, end in reader.last_ends().items():
            self._ends[name] = max(end, self._ends.get(name, 0))
        self.repairs += reader.damage
        self.repairs += [reader.torn] if reader.torn else []
        if reader.is_empty:
            self._empty.append(f"{reader.path} holds no round")
            reader.drop()  # nothing in it was ever acknowledged
        else:
            self._earlier[reader] = reader.names

    @property
    def are_in_place(self) -> bool:
        """Whether the files of this run, if there are any, are still found under their names."""
        return all(writer.is_in_place for writer in self._writers)

    def _names(self, *, own: bool) -> list[str]:
        names = [(node_of(name), name) for name in self._files.list_folder(self._folder)]
        return [n for node, n in names if node is not None and (node == self._node_id) is own]

    def _read_foreign(self) -> None:
        """
        Other nodes' journals as they are now. One that is known is only read on: its owner may be
        long gone and the file a full one, and every claim of a start comes here.
        """
        names = self._names(own=False)
        for name in self._foreign.keys() - set(names):
            self._foreign.pop(name).close()
        for name in names:
            if name in self._foreign:
                self._foreign[name].read_on()
                continue
            # If it is gone its owner has just dropped it, so all it held is in the logs.
            with suppress(FileNotFoundError):
                path = f"{self._folder}/{name}"
                reader = self._foreign[name] = JournalReader(self._files, path, go_on=True)
                self.repairs += reader.damage

    def known_epoch(self, shard: int) -> int:
        """
        The newest epoch of a shard in any journal. Looks at other nodes' files: call it when the
        shard's lock is held, so that its last owner writes no more.
        """
        self._read_foreign()
        epochs = [reader.epochs.get(shard, 0) for reader in self._foreign.values()]
        return max([self._epochs.get(shard, 0), *epochs])

    def known_shards(self) -> int:
        """One more than the highest shard in any journal; 0 when none was ever written to."""
        self._read_foreign()
        foreign = self._foreign.values()
        shards = [*self._epochs, *(shard for reader in foreign for shard in reader.epochs)]
        return max(shards, default=-1) + 1

    def claimed(self, shard: int, epoch: int) -> None:
        """A claim that the next round makes durable."""
        self._epochs[shard] = epoch
        self._unsettled[shard] = epoch  # second: a round that begins a journal writes all epochs

    def settle(self) -> None:
        """Make the claims durable, all with one sync, if there are any that are not."""
        if self._unsettled:
            self.write((), {})

    def write(self, pieces: Sequence[bytes], ends: Mapping[str, int]) -> None:
        """
        Make a round durable. `ends` are those that its logs have after it. Raises AppendFailed or
        SyncFailed, see JournalWriter.write.
        """
        writer = self._writer
        if writer is None or writer.size >= self._roll_bytes:
            writer = self._roll()
        unsettled: dict[int, int] = {}
        while self._unsettled:
            shard, epoch = self._unsettled.popitem()
            unsettled[shard] = epoch
        unwritten: dict[str, Mark] = {}
        while self._unwritten_marks:
            name, mark = self._unwritten_marks.popitem()
            unwritten[name] = mark
        claims = sorted((unsettled if writer.size else self._epochs.copy()).items())
        claim_pieces = [piece for claim in claims for piece in claim_entry(*claim)]
        marks = unwritten if writer.size else self._marks.copy()
        mark_pieces = [piece for mark in marks.items() for piece in mark_entry(*mark)]
        writer.touched.update(dict.fromkeys(ends))
        try:
            writer.write([*claim_pieces, *mark_pieces, *pieces], ends, claim_pieces)
        except BaseException:
            for shard, epoch in unsettled.items():
                self._unsettled.setdefault(shard, epoch)
            for name, mark in unwritten.items():
                self._unwritten_marks.setdefault(name, mark)
            raise
        self._next_round = writer.next_round
        self._ends.update(ends)

    def _roll(self) -> JournalWriter:
        if self._writer is not None and not self._writer.size:
            return self._writer  # its first round failed; another would hold no more
        try:
            writer = JournalWriter(
                self._files, self._folder, self._node_id, self._next_round, dict(self._ends)
            )
        except OSError as error:
            raise AppendFailed(f"cannot begin a journal in {self._folder}: {error}") from error
        self._writers = (*self._writers, writer)
        self._writer = writer
        return writer

    def held(self, name: str, missing_epochs: range) -> Held:
        """
        What is held for a log by any journal, this run's included. No round is written to that log
        meanwhile, so no journal that holds something for it is dropped. `missing_epochs` are those
        of which no journal knew.
        """
        with ExitStack() as stack:
            own = [
                stack.enter_context(closing(JournalReader(self._files, writer.path, writer.size)))
                for writer in self._writers
                if name in writer.touched
            ]
            readers = [*self._earlier, *self._foreign.values(), *own]
            held = Held(readers, stack.pop_all(), name, self._marks.get(name), missing_epochs)
        if missing_epochs and not held.damage:
            held.damage = "; ".join(self._empty)
        return held

    def recovered(self, name: str, mark: Mark | None) -> None:
        """A log has been opened, and all that was held for it is on the disk in its folder."""
        for writer in self._writers:
            writer.touched.pop(name, None)
        for names in list(self._earlier.values()):
            names.discard(name)
        self._note_mark(name, mark)

    def _note_mark(self, name: str, mark: Mark | None) -> None:
        """The next round makes it durable: before the bytes behind the mark are written."""
        if mark is not None and mark != self._marks.get(name):
            self._marks[name] = mark
            self._unwritten_marks[name] = mark  # second: see `claimed`

    def waiting_for(self) -> list[str]:
        """The logs that must be synced before the retiring journals can go, oldest first."""
        return [name for writer in self._retiring() for name in list(writer.touched)]

    def synced(self, name: str, mark: Mark | None) -> None:
        """All of a log is on the disk: no retiring journal is needed for it."""
        self._note_mark(name, mark)
        for writer in self._retiring():
            writer.touched.pop(name, None)

    def drop_done(self) -> None:
        """
        Remove the journals that no log needs any more. A round must have been written before, so
        that the epochs are in the newest one.
        """
        for writer in [writer for writer in self._retiring() if not writer.touched]:
            self._writers = tuple(other for other in self._writers if other is not writer)
            writer.drop()
        for reader in [reader for reader, names in self._earlier.items() if not names]:
            del self._earlier[reader]
            reader.drop()

    def close(self, *, clean: bool) -> None:
        """
        Let go of the files. `clean`: all logs of this run are synced, so one journal with nothing
        but the epochs takes the place of those that are not needed for a log of an earlier run.
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
            self.write((), {})
        else:
            self._writer = None
        for writer in self._retiring():
            writer.touched.clear()
        self.drop_done()

    def _retiring(self) -> list[JournalWriter]:
        return [writer for writer in self._writers if writer is not self._writer]

    def _close_readers(self) -> None:
        for reader in [*self._earlier, *self._foreign.values()]:
            reader.close()
