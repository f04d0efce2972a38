"""Limits on topics, for all clients together.

Limits of single requests are in the modules of their APIs.
"""

from typing import Final

TOPICS_MOST: Final = 50_000
"""Topics of one server, including the group topic; more are POLICY_VIOLATION. Each takes about 0.8
KB of memory and 15 us of every start."""

PARTITIONS_MOST: Final = 200_000
"""Partitions of all topics of one server; more are POLICY_VIOLATION. Each that was ever used since
the start takes about 2.6 KB of memory."""

OPEN_FILES_MOST: Final = 1_000
"""File descriptors for topic logs, unless the server sets another limit."""

WATCHED_MOST: Final = 500_000
"""Partitions named in waiting Fetch requests, in total; each takes about 350 bytes. Further
requests are answered immediately."""

PRODUCERS_MOST: Final = 100_000
"""Idempotent producers remembered, over all partitions; a producer counts for each partition that
it writes to, and takes 0.5 to 1.3 KB. The longest idle producer is forgotten first; it may then
begin with any sequence."""


class OverLimitError(Exception):
    """A client was refused, or got less, because of the limit in the text."""
