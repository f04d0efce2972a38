"""Placeholder types until the compaction branch is merged."""

from dataclasses import dataclass
from typing import NamedTuple

from groupkeeper.storage.limits import Limits
from groupkeeper.storage.manifest import FinishedSegment


class SourceSegment(NamedTuple):
    base: int
    end: int
    size: int
    crc: int | None


@dataclass(slots=True, frozen=True)
class CompactionJob:
    folder: str
    token: str
    segments: tuple[SourceSegment, ...]
    first_dirty: int
    now_ms: int
    delete_retention_ms: int
    producer_id_expiration_ms: int
    dedupe_bytes: int
    limits: Limits


class CleanedSegment(NamedTuple):
    sources: tuple[int, ...]
    finished: FinishedSegment


@dataclass(slots=True)
class Compacted:
    segments: tuple[CleanedSegment, ...]
    first_dirty: int
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
