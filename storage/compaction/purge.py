"""A note in the folder of a log that it has tombstones whose keys are still to be purged.

For logs that are not compacted otherwise. The note is an empty file. It is made durable before the
first tombstone, so that start-up need not search the log for tombstones, and is removed when all
keys are purged.
"""

from typing import Final

from groupkeeper.storage.errors import SyncFailed
from groupkeeper.storage.files.files import Files, parent_of

FILE_NAME: Final = "purge"


class PurgeNote:
    """The note of one open log. `due` is for any thread, the rest for the appending thread."""

    def __init__(self, files: Files, folder: str, *, exists: bool) -> None:
        self._files = files
        self._folder = folder
        self.tombstones = int(exists)
        """How often tombstones were announced; those of earlier processes count as one."""
        self._purged = 0
        """Number of announcements whose keys were purged."""

    @property
    def due(self) -> bool:
        """Whether the log may have tombstones whose keys are to be purged."""
        return self.tombstones > self._purged

    def announce(self) -> None:
        """Announce that tombstones are appended next. Raises OSError, and SyncFailed."""
        if not self.due:
            self._files.make_folder(self._folder)
            self._files.close(self._files.open(f"{self._folder}/{FILE_NAME}", create=True))
            try:
                self._files.sync_folder(self._folder)
                self._files.sync_folder(parent_of(self._folder))
            except OSError as error:
                raise SyncFailed(f"cannot sync {self._folder}: {error}") from error
        self.tombstones += 1

    def purged(self, tombstones: int) -> None:
        """Record that this many announcements were purged. Raises OSError: a start purges again."""
        self._purged = tombstones
        if not self.due:
            self._files.remove(f"{self._folder}/{FILE_NAME}")
