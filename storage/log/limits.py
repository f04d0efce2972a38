"""Limits at which log files roll. The defaults are those of Kafka's offsets topic."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Limits:
    """Roll limits of a log. Sizes are in bytes."""

    segment_bytes: int = 100 * 1024 * 1024
    """Must stay below 2 GiB: index entries hold positions as int32."""
    segment_ms: int = 7 * 24 * 3_600_000
    """A segment rolls when the next batch is newer than the first by more than this; the largest
    timestamp of each batch counts."""
    server_times: bool = False
    """All timestamps come from this server's clock: one that far before the first of its segment
    means that the clock was wrong, and rolls the segment, too."""
    index_interval_bytes: int = 4096
    index_bytes: int = 10 * 1024 * 1024
    """Size of each of the two index files; the segment rolls when one is full."""
    journal_bytes: int = 64 * 1024 * 1024
