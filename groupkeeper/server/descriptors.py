"""Shares the file descriptors of the process among connections and logs."""

from contextlib import suppress
from types import ModuleType
from typing import Final

RESERVED: Final = 128
"""Descriptors for the journals, the HTTP port, the catalog and libraries."""
PER_PARTITION: Final = 3
"""Descriptors of a partition of the offsets topic: its lease, and the last segments of its log and
of the log of its events."""
LEAST: Final = 8
"""Minimum share of connections, and of topic logs, however low the limit is."""
TOPIC_LOGS: Final = 20_000
"""Maximum descriptors for topic logs: each open log takes memory, too."""
WITHOUT_LIMIT: Final = 512
"""Assumed limit on Windows, which has none: the maximum sockets of Python's select() there."""

_resource: ModuleType | None = None
with suppress(ModuleNotFoundError):  # Windows
    import resource as _resource


def share(limit: int, partitions: int) -> tuple[int, int]:
    """Return the descriptors for connections and for topic logs, for this limit of open files and
    this number of group partitions.
    """
    left = limit - RESERVED - PER_PARTITION * partitions
    topic_logs = min(max(left // 4, LEAST), TOPIC_LOGS)
    return max(left - topic_logs, LEAST), topic_logs


def limit_of_open_files() -> int:
    """Return the soft limit of this process (RLIMIT_NOFILE)."""
    if _resource is None:
        return WITHOUT_LIMIT
    return int(_resource.getrlimit(_resource.RLIMIT_NOFILE)[0])


def raise_limit() -> None:
    """Raise the soft limit, often 1,024, to the hard one; it stays if the system refuses that."""
    if _resource is None:
        return
    soft, hard = _resource.getrlimit(_resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS: the hard limit may be none, or over OPEN_MAX
            _resource.setrlimit(_resource.RLIMIT_NOFILE, (hard, hard))
