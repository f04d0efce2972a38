"""Kafka's `leader-epoch-checkpoint` of a partition folder: the first offset of each leader epoch.

For Kafka's tools and for people. The batches carry the epochs, so the file is neither synced nor
relied on, except for batches before a recovery point: these are not read when the log is opened,
and the recovery point has a checksum of their entries in the file.

Source: Kafka's LeaderEpochFileCache.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import overwrite, read_whole
from groupkeeper.storage.log.scan import Batch

FILE_NAME: Final = "leader-epoch-checkpoint"


class EpochFile:
    """Text file: version line `0`, number of entries, then one `epoch startOffset` per line."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{FILE_NAME}"
        self._entries: list[tuple[int, int]] = []
        self._text = b""
        """The contents of the file."""
        self.last_epoch = -1
        """The largest epoch, or -1."""
        self.descends = False
        """Whether a batch has an older epoch than a batch before it: opening such a log fails."""

    @property
    def entries(self) -> Sequence[tuple[int, int]]:
        """Epochs and their first offsets, both ascending."""
        return self._entries

    def load(self, before: int) -> None:
        """Read the entries that start below an offset. A missing or malformed file yields none."""
        try:
            self._text = read_whole(self._files, self._path)
        except FileNotFoundError:
            return
        try:
            lines = [line.split() for line in self._text.decode("ascii").splitlines()[2:]]
            entries = [(int(epoch), int(start)) for epoch, start in lines]
        except ValueError:
            return
        self._entries = [entry for entry in entries if entry[1] < before]
        self.last_epoch = self._entries[-1][0] if self._entries else -1

    def note(self, epoch: int, start: int) -> bool:
        """Record that a batch of an epoch starts at an offset. Returns whether the epoch is new."""
        if epoch <= self.last_epoch:
            self.descends = self.descends or epoch < self.last_epoch
            return False
        self._entries.append((epoch, start))
        self.last_epoch = epoch
        return True

    def note_all(self, batches: Sequence[Batch]) -> None:
        """Record appended batches, and write the file if an epoch is new."""
        if batches[-1].epoch == self.last_epoch:
            return
        news = [self.note(batch.epoch, batch.base_offset) for batch in batches]
        if any(news):
            self.write()

    def write(self) -> None:
        """Write the whole file unless it is up to date. OSErrors are ignored."""
        entries = _lines(self._entries)
        text = "\n".join(["0", str(len(entries)), *entries, ""]).encode("ascii")
        if text != self._text:
            with suppress(OSError):
                overwrite(self._files, self._path, text, sync=False)
                self._text = text

    def checksum(self, before: int, crc: int) -> int:
        """Extend a CRC-32C over the entries that start below an offset. Thread-safe."""
        entries = [entry for entry in list(self._entries) if entry[1] < before]
        return crc32c("\n".join(_lines(entries)).encode("ascii"), crc)


def _lines(entries: Sequence[tuple[int, int]]) -> list[str]:
    return [f"{epoch} {start}" for epoch, start in entries]
