"""What opening.py finds in the folder of a log, and log.py goes on with."""

from dataclasses import dataclass

from groupkeeper.storage.epochs import EpochFile
from groupkeeper.storage.manifest import ManifestFile
from groupkeeper.storage.segment import Segment


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
