"""Compares what is stored in `__group_events` with what readers of facts were told, over all
processes of a data directory.
"""

from collections import Counter
from typing import NamedTuple

from groupkeeper.coordinator.facts import NotedFact, RebalanceCompleted
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.server.server import Server
from tests.support.stored_events import events_in

ROUND = "rebalance_completed"


class Round(NamedTuple):
    """A round that ended with assignments."""

    epoch: int
    group: str
    generation: int
    at_ms: int


class EventLedger:
    """The rounds that readers were told."""

    def __init__(self) -> None:
        self._told: list[Round] = []
        self._dropped: list[Counter[tuple[str, str]]] = []

    def watch(self, server: Server) -> None:
        """Listen to a new process."""
        server.readers.subscribe("events", self._note)
        self._dropped.append(server.metrics.counts)

    def _note(self, origin: Origin, noted: NotedFact) -> None:
        fact = noted.fact
        if isinstance(fact, RebalanceCompleted):
            self._told.append(Round(origin.leader_epoch, fact.group, fact.generation, noted.wall))

    def check(self, server: Server) -> int:
        """Every round that was told is stored, once and in order; returns how many there are. What
        was dropped because its log had failed was counted.
        """
        stored: list[Round] = []
        for log in server.event_logs.by_partition:
            events = list(events_in(log.log))
            places = [(event.epoch, event.seq) for event in events]
            assert places == sorted(set(places)), log.name
            stored += [
                Round(event.epoch, event.group or "", event.generation, event.at_ms)
                for event in events
                if event.type == ROUND
            ]
        assert len(stored) == len(set(stored))
        missing = set(self._told) - set(stored)
        dropped = sum(counts["events_dropped", ROUND] for counts in self._dropped)
        assert len(missing) <= dropped, sorted(missing)
        return len(stored)
