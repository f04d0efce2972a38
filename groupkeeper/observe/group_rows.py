"""What a scrape is told about single groups and topics: the contract between who has them and who
writes their series (`group_series`).
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from groupkeeper.turns import Slices


class LagRow(NamedTuple):
    """A committed offset of a group for a partition."""

    partition: int
    committed: int
    lag: int
    """Records."""
    lag_ms: int | None
    """None if unknown."""


@dataclass(slots=True)
class GroupRow:
    """One group."""

    group: str
    state: str
    """In DescribeGroups' words."""
    state_since_ms: int
    """Unix milliseconds, as all times here."""
    members: int
    rebalances: int
    """Since the group was created or loaded."""
    cause: str
    """Of the last of them; empty if there was none."""
    rebalanced_ms: int
    """When that one began."""
    silence_ms: int | None
    """How long the quietest static member has not been heard of; None without static members."""
    topics: Mapping[str, Sequence[LagRow]] = field(default_factory=dict)
    """What it has committed for."""
    partitions: int = 0
    """How many rows that are."""
    lag: int = 0
    """Records, of all of them."""


class TopicRow(NamedTuple):
    """One topic."""

    topic: str
    partitions: int
    ends: Mapping[int, tuple[int, int]]
    """Start offset and end offset by partition, of those whose log can be read."""


class Sight(Protocol):
    """Groups and topics as a scrape finds them. Rows are made when they are asked for."""

    node_id: int
    topics: Sequence[str]
    """Without internal ones."""
    groups: Sequence[str]
    """Those that had series before come first."""

    @abstractmethod
    def topic(self, name: str) -> Slices[TopicRow | None]:
        """None if the topic is deleted meanwhile."""

    @abstractmethod
    def group(self, group_id: str) -> Slices[GroupRow | None]:
        """None if the group is gone meanwhile."""


Look = Callable[[Collection[str]], Awaitable[Sight]]
"""Called with the groups that had series in the last scrape."""
