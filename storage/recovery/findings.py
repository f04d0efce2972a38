"""What opening.py finds in the folder of a log: its contents, which log.py goes on with, and what
is wrong, and whether it may be opened all the same.
"""

from dataclasses import dataclass

from groupkeeper.storage.errors import Corrupt, Loss, remedy
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.segment import Segment
from groupkeeper.storage.recovery.manifest import ManifestFile


class Findings:
    """What was found wrong with a log while it was opened."""

    def __init__(self, folder: str, *, accepted: bool) -> None:
        self._folder = folder
        self._accepted = accepted
        self.repairs: list[str] = []
        """What was repaired, or left out, a line each."""
        self.losses: list[Loss] = []
        """What an operator has accepted."""

    def lost(self, what: str, first: int, end: int | None) -> None:
        """Raise Corrupt because records are lost, unless an operator has accepted that.

        They are, or may be, those from offset `first` up to `end`; None: up to an unknown one.
        """
        if not self._accepted:
            raise Corrupt(f"{what}: {remedy(self._folder)}")
        self.repairs.append(f"{what}: accepted")
        self.losses.append(Loss(what, first, end))

    def gap(self, end: int, last_epoch: int, base: int, epoch: int, damage: str) -> None:
        """Report that a log ends at one offset and its journal goes on at another; as `lost`."""
        self.lost(
            f"{self._folder} ends at offset {end}, epoch {last_epoch}, but its journal goes on at "
            f"offset {base}, epoch {epoch}" + (f" ({damage})" if damage else ""),
            end,
            base,
        )


@dataclass(slots=True)
class Contents:
    """What the folder of a log holds."""

    segments: tuple[Segment, ...]
    epochs: EpochFile
    manifest: ManifestFile
    next_offset: int = 0
    purge_noted: bool = False
    unsynced: bool = False
    """Bytes were cut off the last segment, and that is not synced yet."""
