"""Two copies of the catalog's log, in separate folders: damage to one loses nothing.

A change is durable in the first copy before it is written to the second. So a crash or a torn write
leaves at least one intact copy with all acknowledged changes: the intact copy with the higher end
offset. A start restores the other from it, and logs that.

The records are defined in catalog.py; here the key of the first record shows whether a log is
complete.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.files.whole import copy_file, sync_file
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.segment import base_of
from groupkeeper.storage.recovery.opening import NO_END, open_log

FOLDERS: Final = ("catalog", "catalog-copy")
"""Not of the form `<topic>-<partition>`, so that no topic has such a folder."""

FIRST_KEY: Final = b"cluster"
"""Key of the first record: it is written once, so that no compaction removes it."""

EPOCH: Final = 0
"""Leader epoch of every batch. No checksum covers it."""

SEGMENT_BYTES: Final = 1024 * 1024
"""Size at which a segment of the catalog rolls. A smaller catalog is not compacted."""


@dataclass(slots=True)
class _Copy:
    """One of the copies as found at the start."""

    folder: str
    log: Log | None
    """None if damaged."""
    error: str
    """Description of the damage; empty if there is none."""
    end: int
    """The next offset; 0 if the log is empty or missing, -1 if damaged."""


class CatalogLog:
    """Both copies, with the same content. Not thread-safe."""

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs
        """The cleaner compacts each copy separately, so they may differ in outdated records."""

    @property
    def next_offset(self) -> int:
        return self.logs[0].next_offset

    @property
    def size(self) -> int:
        """Size of one copy in bytes."""
        return self.logs[0].size

    def batches(self) -> Iterator[bytes]:
        """Yield all of it, in chunks of whole batches."""
        return self.logs[0].batches()

    def write(self, batch: bytes) -> None:
        """Make a batch durable in both copies, blocking. Raises StorageError and OSError: either
        copy may then have part or all of it. Close the log and open it up to this batch.
        """
        for log in self.logs:
            log.append(batch)
            log.sync()

    def close(self) -> None:
        with ExitStack() as stack:
            for log in self.logs:
                stack.callback(log.close)


@dataclass(slots=True)
class CatalogFolders:
    """The folders of the two copies."""

    files: Files
    data_dir: str
    limits: Limits
    repaired: Callable[[str], None]
    """Called with a description of damage that was repaired."""
    must_exist: bool = False
    """A catalog existed before, so its absence is a loss."""

    def open(self, end: int = NO_END) -> CatalogLog:
        """Open both copies, durable and cut off from offset `end` on. Raises StorageError and
        OSError; Corrupt if neither copy is whole.
        """
        with ExitStack() as stack:
            copies = []
            for name in FOLDERS:
                copies.append(self._look(f"{self.data_dir}/{name}", end))
                log = copies[-1].log
                if log is not None:
                    stack.callback(log.close)
            best = max(copies, key=lambda copy: copy.end)
            self._check_best(best, copies)
            for copy in sorted(copies, key=lambda copy: copy is not best):
                if copy.log is None or copy.end != best.end:
                    copy.log = self._restore(copy, best)
                    stack.callback(copy.log.close)
                else:
                    copy.log.sync_all()
            stack.pop_all()
            return CatalogLog([copy.log for copy in copies if copy.log is not None])

    def _check_best(self, best: _Copy, copies: list[_Copy]) -> None:
        if best.end > 0:
            return
        for copy in copies:
            if copy.error:
                raise Corrupt(copy.error)
        first, second = (f"{self.data_dir}/{name}" for name in FOLDERS)
        emptied_on_purpose = FOLDERS[0] in self.files.list_folder(
            self.data_dir
        ) and not self.files.list_folder(first)
        if self.must_exist and not emptied_on_purpose:
            raise Corrupt(
                f"{first} and {second} are missing or empty, and with them all topics: restore one "
                "of them from a backup, or recreate the topics that have folders: groupkeeper "
                f"repair {self.data_dir}, or start without topics: rm -rf {first} {second}; "
                f"mkdir {first}"
            )

    def _look(self, folder: str, end: int) -> _Copy:
        try:
            log = open_log(self.files, folder, self.limits, end=end)
        except Corrupt as error:
            return _Copy(folder, None, str(error), -1)
        try:
            _check_whole(log, folder)
        except Corrupt as error:
            log.close()
            return _Copy(folder, None, str(error), -1)
        if end == NO_END:  # else the repair cut off a failed change
            for what in log.take_repairs():
                self.repaired(what)
        return _Copy(folder, log, "", log.next_offset)

    def _restore(self, copy: _Copy, best: _Copy) -> Log:
        found = copy.error or (f"it ended at {copy.end}" if copy.end else "it was empty")
        if copy.log is not None:
            copy.log.close()
        for name in self.files.list_folder(copy.folder):
            self.files.remove(f"{copy.folder}/{name}")
        self.files.make_folder(copy.folder)
        for name in self.files.list_folder(best.folder):
            if base_of(name) is not None:
                path = f"{copy.folder}/{name}"
                copy_file(self.files, f"{best.folder}/{name}", self.files, path)
                sync_file(self.files, path)
        self.files.sync_folder(copy.folder)
        self.files.sync_folder(parent_of(copy.folder))
        log = open_log(self.files, copy.folder, self.limits)
        self.repaired(
            f"{copy.folder} is restored from {best.folder}, up to offset {best.end}: {found}"
        )
        return log


def _check_whole(log: Log, folder: str) -> None:
    """Raise Corrupt if records are missing at the start of a log or in the middle."""
    expected, loose = log.start_offset, _compacted_up_to(log)
    first = True
    for chunk in log.batches():
        for header in iter_batches(chunk):
            is_next = header.base_offset == expected
            may_follow = expected < header.base_offset <= loose
            if not (is_next or may_follow) or header.leader_epoch != EPOCH:
                raise Corrupt(
                    f"{folder} has offset {header.base_offset} in epoch {header.leader_epoch} "
                    f"where offset {expected} in epoch {EPOCH} belongs: {remedy(folder)}"
                )
            if first and next(decode_records(chunk, header)).key != FIRST_KEY:
                what = f"{folder} has lost the records before offset {expected}"
                raise Corrupt(f"{what}: {remedy(folder)}")
            expected, first = header.next_offset, False


def _compacted_up_to(log: Log) -> int:
    """Return the offset before which records may be missing between others.

    Segments that the manifest does not have may be compacted.
    """
    for segment, end in reversed(log.finished):
        if segment.finished is None or segment.finished.compacted:
            return end
    return 0
