"""How much the data plane holds at most for all clients together.

Not the limits of single requests: those stand where the requests are answered.
"""

from typing import Final

TOPICS_MOST: Final = 50_000
"""Topics of one server, the group topic among them. Each takes about 0.8 KB of
memory and 15 us of every start; more are POLICY_VIOLATION."""

PARTITIONS_MOST: Final = 200_000
"""Partitions of all topics of one server; more are POLICY_VIOLATION. Each that was ever used since
the start takes about 2.6 KB of memory."""

OPEN_FILES_MOST: Final = 1_000
"""Descriptors for topic logs, where nobody says how many there may be."""

WATCHED_MOST: Final = 500_000
"""Partitions that waiting Fetches name, all together; each takes about 350 bytes. A Fetch beyond
is answered at once with what there is."""

PRODUCERS_MOST: Final = 100_000
"""Idempotent producers remembered, over all partitions; a producer counts on each that it writes
to, and takes 0.5 to 1.3 KB. The one that is silent longest is forgotten first, and is then as good
as new."""


class OverLimitError(Exception):
    """A client was refused something, or got less: says which limit it was."""
