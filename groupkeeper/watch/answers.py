"""Answers of the observed cluster about groups, beside their records, and what is to be asked:
see `cluster_asking`. Folds read and want on another thread than the one that asks.
"""

from dataclasses import dataclass, field
from typing import Final

from groupkeeper.history.epochs import CONSUMER
from groupkeeper.history.newer import NewerStory
from groupkeeper.history.newer_departures import SessionLimit

WANTED_MOST: Final = 10_000
"""Maximum number of topics, and of groups, that wait to be asked for; others are asked for with the
next record of their group."""


@dataclass(slots=True)
class ClusterAnswers:
    """The answers so far."""

    names: dict[bytes, str] = field(default_factory=dict)
    """Topic id -> name."""
    sessions: dict[str, SessionLimit] = field(default_factory=dict)
    """Consumer group -> settings of its sessions."""
    unnamed: dict[str, None] = field(default_factory=dict)
    """Ids of topics whose names are to be asked for, in order."""
    unasked: dict[str, None] = field(default_factory=dict)
    """Consumer groups whose settings are to be asked for, in order."""
    asked: set[str] = field(default_factory=set)
    """Consumer groups whose settings were asked for lately, with or without an answer."""

    def want(self, group: str, newer: NewerStory) -> None:
        """Note what records of a group do not say."""
        topics = newer.topics.unnamed
        some = topics[: max(0, WANTED_MOST - len(self.unnamed))]
        del topics[: len(some)]
        for topic in some:
            self.unnamed[topic] = None
        is_due = newer.kind == CONSUMER and group not in self.asked
        if is_due and len(self.unasked) < WANTED_MOST:
            self.unasked[group] = None
