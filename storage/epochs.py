"""
Kafka's `leader-epoch-checkpoint` of a partition folder: which epoch began at which offset.

A convenience for Kafka's tools and for people: the truth is in the batches, so it is neither
synced nor trusted.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from groupkeeper.storage.files import Files
from groupkeeper.storage.scan import Batch
from groupkeeper.storage.whole import read_whole

FILE_NAME: Final = "leader-epoch-checkpoint"


class EpochFile:
    """Text: a version line `0`, the number of entries, then `epoch startOffset` per line."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{FILE_NAME}"
        self._entries: list[tuple[int, int]] = []

    @property
    def entries(self) -> Sequence[tuple[int, int]]:
        """Epochs and their first offsets, both rising."""
        return self._entries

    @property
    def last_epoch(self) -> int:
        return self._entries[-1][0] if self._entries else -1

    def load(self, before: int) -> None:
        """Read the entries that begin below an offset; nothing if the file is missing or odd."""
        try:
            text = read_whole(self._files, self._path)
        except FileNotFoundError:
            return
        try:
            lines = [line.split() for line in text.decode("ascii").splitlines()[2:]]
            entries = [(int(epoch), int(start)) for epoch, start in lines]
        except ValueError:
            return
        self._entries = [entry for entry in entries if entry[1] < before]

    def note(self, epoch: int, start: int) -> bool:
        """A batch of an epoch begins at an offset. True if the epoch is new, and `write` is due."""
        if epoch <= self.last_epoch:
            return False
        self._entries.append((epoch, start))
        return True

    def note_all(self, batches: Sequence[Batch]) -> None:
        """`note` and, if it is due, `write`, for batches that were appended."""
        if batches[-1].epoch == self.last_epoch:
            return
        news = [self.note(batch.epoch, batch.base_offset) for batch in batches]
        if any(news):
            self.write()

    def write(self) -> None:
        """The whole file anew, or as far as it goes: an append does not fail for its sake."""
        lines = [
            "0",
            str(len(self._entries)),
            *(f"{epoch} {start}" for epoch, start in self._entries),
        ]
        data = ("\n".join(lines) + "\n").encode("ascii")
        with suppress(OSError):
            handle = self._files.open(self._path, create=True)
            try:
                self._files.write(handle, data, 0)
                self._files.truncate(handle, len(data))
            finally:
                self._files.close(handle)
