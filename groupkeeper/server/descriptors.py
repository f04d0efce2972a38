"""Who may open how many files: the process has a limit, and running out of it stops everybody."""

import resource
from dataclasses import dataclass
from typing import Final

RESERVED: Final = 128
"""Descriptors for the journals, the HTTP port, the catalog and whatever a library opens."""
PER_PARTITION: Final = 2
"""Descriptors of a partition of the offsets topic: its lease and its last segment."""
LEAST: Final = 8
"""Of connections and of topic logs, however low the limit is."""
TOPIC_LOGS: Final = 20_000
"""Most descriptors for topic logs: each one takes memory as well."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """How many file descriptors there are for what."""

    connections: int
    topic_logs: int


def share(limit: int, partitions: int) -> Descriptors:
    """What a process with this limit of open files has for connections and topic logs."""
    left = limit - RESERVED - PER_PARTITION * partitions
    topic_logs = min(max(left // 4, LEAST), TOPIC_LOGS)
    return Descriptors(max(left - topic_logs, LEAST), topic_logs)


def limit_of_open_files() -> int:
    """The soft limit of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> None:
    """Every connection and every log segment is an open file; the soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
