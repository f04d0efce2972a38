"""What the observed cluster answers about groups, beside their records: see `unsaid`."""

from dataclasses import dataclass, field

from groupkeeper.history.newer_departures import SessionLimit


@dataclass(slots=True)
class ClusterAnswers:
    """The answers so far. Folds read them on another thread than the one that adds to them."""

    names: dict[bytes, str] = field(default_factory=dict)
    """Topic id -> name."""
    sessions: dict[str, SessionLimit] = field(default_factory=dict)
    """Consumer group -> settings of its sessions."""
