"""Keeps what coordinators answered lately, and returns it as evidence about one group.

Listings name all groups of a node that are in a rebalance, so they also show which are not. That
counts only for groups that the node has described, because it leaves out those that the user may
not see.

Times are of the observer's monotonic clock, which nobody sets, and evidence is of the coordinator's
wall clock. The difference of the two is at most the age at which a new record was received: the
least one of the last 10 to 20 minutes, of all partitions that the node leads. Of a node that no new
record came of, nothing is evidence; a record that was written before the observer read all of its
partition is not new.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupkeeper.history.asked import Sighting

LISTINGS: Final = 64
"""Listings of a node to keep, the last ones: about a minute."""
DESCRIPTIONS: Final = 16
"""Descriptions of a group to keep, the last ones."""
DESCRIBED: Final = 10_000
"""Groups whose descriptions are kept; beyond, that of the longest ago is dropped."""
WINDOW_MS: Final = 600_000
"""The least difference of clocks is that of the present window of this length and the last one."""
LATENCY_MS: Final = 200
"""Most that the least age of a record exceeds the difference of clocks by: the time that it takes
to replicate, fetch and read one when nothing else is to do."""

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
"""States of a group in a rebalance."""


class GroupListing(NamedTuple):
    """An answer to ListGroups."""

    sent_ms: int
    received_ms: int
    rebalancing: Mapping[str, str]
    """Group id -> state, of groups in a rebalance."""
    leaders: Mapping[int, int]
    """Leaders of the partitions of the topic by then, as far as was known."""


class Description(NamedTuple):
    """An answer about one group to DescribeGroups."""

    sent_ms: int
    received_ms: int
    state: str
    members: frozenset[str]


class _Difference:
    """The least age of a record when it was received."""

    __slots__ = ("_before_ms", "_least_ms", "_since_ms")

    def __init__(self, age_ms: int, now_ms: int) -> None:
        self._before_ms = self._least_ms = age_ms
        self._since_ms = now_ms

    def add(self, age_ms: int, now_ms: int) -> None:
        if now_ms - self._since_ms >= WINDOW_MS:
            self._before_ms, self._least_ms, self._since_ms = self._least_ms, age_ms, now_ms
        self._least_ms = min(self._least_ms, age_ms)

    @property
    def ms(self) -> int:
        return min(self._before_ms, self._least_ms)


class Sightings:
    """The answers of all nodes. `of` may be called by another thread: what it reads is replaced,
    not changed.
    """

    def __init__(self) -> None:
        self._listings: dict[int, tuple[GroupListing, ...]] = {}
        self._described: dict[str, tuple[Description, ...]] = {}
        self._differences: dict[int, _Difference] = {}
        """By node."""

    def received(self, node: int, record_ms: int, now_ms: int) -> None:
        """Note that a new record of a node, of `record_ms` by its wall clock, was received now."""
        age_ms = now_ms - record_ms
        known = self._differences.get(node)
        if known is None:
            self._differences[node] = _Difference(age_ms, now_ms)
        else:
            known.add(age_ms, now_ms)

    def listed(self, node: int, listing: GroupListing) -> None:
        """Keep a listing."""
        before = self._listings.get(node, ())
        self._listings[node] = (*before[1 - LISTINGS :], listing)

    def described(self, group: str, description: Description) -> None:
        """Keep a description."""
        before = self._described.pop(group, ())
        self._described[group] = (*before[1 - DESCRIPTIONS :], description)
        if len(self._described) > DESCRIBED:
            del self._described[next(iter(self._described))]

    def hidden(self, group: str) -> None:
        """Note that the user may not see a group (any more)."""
        self._described.pop(group, None)

    def ahead_ms(self, node: int | None) -> int | None:
        """Return by how much the observer's clock is ahead of that of a node at most; None if that
        is unknown.
        """
        difference = None if node is None else self._differences.get(node)
        return None if difference is None else difference.ms

    def of(self, group: str, partition: int, node: int | None) -> tuple[Sighting, ...]:
        """Return what is known of a group, whose coordinator is `node`, on its clock."""
        ahead_ms = self.ahead_ms(node)
        descriptions = self._described.get(group, ())
        if ahead_ms is None or node is None or not descriptions:
            return ()
        listings = [
            Sighting(
                each.sent_ms - ahead_ms,
                each.received_ms - ahead_ms + LATENCY_MS,
                group in each.rebalancing,
            )
            for each in self._listings.get(node, ())
            if each.leaders.get(partition) == node
        ]
        described = [
            Sighting(
                each.sent_ms - ahead_ms,
                each.received_ms - ahead_ms + LATENCY_MS,
                each.state in REBALANCING,
                each.members,
            )
            for each in descriptions
        ]
        return (*listings, *described)
