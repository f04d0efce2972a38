"""When files roll. The defaults are those of Kafka's offsets topic."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Limits:
    """Sizes are in bytes."""

    segment_bytes: int = 100 * 1024 * 1024
    """Must stay below 2 GiB: index entries hold positions as int32."""
    segment_ms: int = 7 * 24 * 3_600_000
    """A segment rolls when the next batch is younger than its first one by more than this, by the
    largest timestamp of each."""
    server_times: bool = False
    """All timestamps are this server's: one that is before the first of its segment by as much
    means that its clock was wrong, and rolls, too."""
    index_interval_bytes: int = 4096
    index_bytes: int = 10 * 1024 * 1024
    """Of each of the two index files of a segment; the segment rolls when one is full."""
    journal_bytes: int = 64 * 1024 * 1024
