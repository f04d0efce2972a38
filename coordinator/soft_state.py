"""What a group remembers while something is under way, and loses at a failover."""

from dataclasses import dataclass, field

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.causes import Cause, Who


@dataclass(slots=True)
class Rebalance:
    """The rebalance under way, or the last one."""

    cause: Cause
    started_ms: int
    initial_delay: bool = False
    """The group was Empty, and waits for more members (KIP-134)."""
    delay_ms: int = 0
    """The length of the current part of the initial delay."""
    delay_left_ms: int = 0
    """How much longer the first member's rebalance timeout allows to wait."""
    newcomers: bool = False
    """A member joined during the current part of the delay."""
    arrivals: dict[str, int] = field(default_factory=dict)
    """When each member's first JoinGroup came, in ms since the start, until the assignments are
    stored."""
    joined_ms: int = 0
    """When the join phase ended."""


@dataclass(slots=True)
class Returning:
    """Which members of a loaded group have not been heard of."""

    unheard: dict[str, None]
    lost: list[Who] = field(default_factory=list)
    """Those that were removed meanwhile."""


@dataclass(slots=True)
class Outsider:
    """The client that committed last since the group is Empty, without being a member."""

    peer: Peer
    committed_ms: int
