"""Answers of the observed cluster about groups, beside their records, and what is to be asked:
see `cluster_asking`. Folds read and want on another thread than the one that asks.
"""

from dataclasses import dataclass, field
from typing import Final

from groupkeeper.history.epochs import CONSUMER
from groupkeeper.history.newer import NewerStory
from groupkeeper.history.newer_departures import SessionLimit

WANTED_MOST: Final = 10_000
"""Maximum number of topics, and of groups, that wait to be asked for; others are asked for with
their next record."""


@dataclass(slots=True)
class ClusterAnswers:
    """The answers so far."""

    names: dict[bytes, str] = field(default_factory=dict)
    """Topic id -> name."""
    sessions: dict[str, SessionLimit] = field(default_factory=dict)
    """Consumer group -> settings of its sessions."""
    _unnamed: dict[str, None] = field(default_factory=dict)
    _unasked: dict[str, None] = field(default_factory=dict)

    def want(self, group: str, newer: NewerStory) -> None:
        """Note what records of a group do not say."""
        for topic in newer.topics.unnamed:
            if len(self._unnamed) < WANTED_MOST:
                self._unnamed[topic] = None
        newer.topics.unnamed.clear()
        is_known = newer.kind != CONSUMER or group in self.sessions
        if not is_known and len(self._unasked) < WANTED_MOST:
            self._unasked[group] = None

    def wanted(self) -> tuple[list[str], list[str]]:
        """Return ids of topics without a name, and consumer groups without settings, since the last
        call.
        """
        topics, groups = list(self._unnamed), list(self._unasked)
        for topic in topics:
            del self._unnamed[topic]
        for group in groups:
            del self._unasked[group]
        return topics, groups
