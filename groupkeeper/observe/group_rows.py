"""Data of single groups and topics for a scrape: the interface that `group_series` reads."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

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
    """As in DescribeGroups."""
    state_since_ms: int
    """Unix milliseconds, as all times here."""
    members: int
    rebalances: int
    """Rebalances since the group was created or loaded."""
    cause: str
    """Cause of the last rebalance; empty if there was none."""
    rebalanced_ms: int
    """Start of the last rebalance."""
    silence_ms: int | None
    """Time since the quietest static member was last heard from; None without static members."""
    topics: Mapping[str, Sequence[LagRow]] = field(default_factory=dict)
    """The committed offsets by topic."""
    partitions: int = 0
    """Number of rows in `topics`."""
    lag: int = 0
    """Total lag in records."""


class ReplicaRow(NamedTuple):
    """The replicas of a partition."""

    leader: int
    """Node id; -1 if there is none."""
    is_preferred: bool
    """Whether the leader is the first replica."""
    replicas: int
    in_sync: int


_NO_REPLICAS: Final[Mapping[int, ReplicaRow]] = {}


class TopicRow(NamedTuple):
    """One topic."""

    topic: str
    partitions: int
    ends: Mapping[int, tuple[int, int]]
    """Start offset and end offset by partition, for readable logs."""
    replicas: Mapping[int, ReplicaRow] = _NO_REPLICAS
    """By partition; others have one replica, on this node."""


class Sight(Protocol):
    """Groups and topics for a scrape. Rows are made on demand."""

    node_id: int
    brokers: int
    """Number of brokers of the cluster."""
    topics: Sequence[str]
    """Without internal topics."""
    groups: Sequence[str]
    """Groups that had series before come first."""

    @abstractmethod
    def topic(self, name: str) -> Slices[TopicRow | None]:
        """Return None if the topic was deleted meanwhile."""

    @abstractmethod
    def group(self, group_id: str) -> Slices[GroupRow | None]:
        """Return None if the group is gone meanwhile."""


Look = Callable[[Collection[str]], Awaitable[Sight]]
"""Called with the groups that had series in the last scrape."""
