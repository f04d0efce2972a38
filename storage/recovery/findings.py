"""Results of opening a log's folder: contents for log.py, and damage, which may forbid opening."""

from dataclasses import dataclass

from groupkeeper.storage.errors import Corrupt, Loss, remedy
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.segment import Segment
from groupkeeper.storage.recovery.manifest import ManifestFile


class Findings:
    """Damage found while a log is opened."""

    def __init__(self, folder: str, *, accepted: bool) -> None:
        self._folder = folder
        self._accepted = accepted
        self.repairs: list[str] = []
        """Messages about what was repaired or left out."""
        self.losses: list[Loss] = []
        """Losses that an operator has accepted."""

    def lost(self, what: str, first: int, end: int | None) -> None:
        """Raise Corrupt because records are lost, unless an operator has accepted that.

        The lost range is from offset `first` to `end`, or to an unknown offset if `end` is None.
        """
        if not self._accepted:
            raise Corrupt(f"{what}: {remedy(self._folder)}")
        self.repairs.append(f"{what}: accepted")
        self.losses.append(Loss(what, first, end))

    def gap(self, end: int, last_epoch: int, base: int, epoch: int, damage: str) -> None:
        """Report with `lost` that a log ends at one offset and its journal begins at another."""
        self.lost(
            f"{self._folder} ends at offset {end}, epoch {last_epoch}, but its journal resumes at "
            f"offset {base}, epoch {epoch}" + (f" ({damage})" if damage else ""),
            end,
            base,
        )


@dataclass(slots=True)
class Contents:
    """The contents of a log's folder."""

    segments: tuple[Segment, ...]
    epochs: EpochFile
    manifest: ManifestFile
    next_offset: int = 0
    unsynced: bool = False
    """Whether bytes were cut off the last segment and this is not synced yet."""
