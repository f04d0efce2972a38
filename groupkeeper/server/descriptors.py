"""Shares the file descriptors of the process among connections and logs: the process has a limit,
and cannot serve without any left.
"""

import resource
from dataclasses import dataclass
from typing import Final

RESERVED: Final = 128
"""Descriptors for the journals, the HTTP port, the catalog and libraries."""
PER_PARTITION: Final = 3
"""Descriptors of a partition of the offsets topic: its lease, and the last segments of its log and
of that of its events."""
LEAST: Final = 8
"""The least share of connections, and of topic logs, however low the limit is."""
TOPIC_LOGS: Final = 20_000
"""Most descriptors for topic logs: each open log takes memory, too."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The shares, in file descriptors."""

    connections: int
    topic_logs: int


def share(limit: int, partitions: int) -> Descriptors:
    """The shares of a process with this limit of open files and so many group partitions."""
    left = limit - RESERVED - PER_PARTITION * partitions
    topic_logs = min(max(left // 4, LEAST), TOPIC_LOGS)
    return Descriptors(max(left - topic_logs, LEAST), topic_logs)


def limit_of_open_files() -> int:
    """The soft limit of this process (RLIMIT_NOFILE)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> None:
    """Raise the soft limit, often 1,024, to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
