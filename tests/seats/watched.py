"""A scene with an oracle beside it."""

from collections.abc import Sequence
from typing import Any

from groupkeeper.coordinator.facts import NotedFact
from groupkeeper.coordinator.group import Group
from tests.seats.consumer import assigned
from tests.seats.oracle import Oracle, places_in
from tests.support.scene import GROUP, Call, Scene


class Watched(Scene):
    """A scene with an oracle beside it."""

    def __init__(self, oracle: Oracle, **config: Any) -> None:
        self.oracle = oracle
        self.sent: dict[int, tuple[Any, int]] = {}
        """Requests that may be answered, by the identity of their calls, and their numbers."""
        self.number = 0
        self._read = 0
        """So many records of the log are known to the oracle."""
        super().__init__(**config)

    @property
    def known(self) -> Group | None:
        return self.partition.groups.get(GROUP)

    def hand_in(self, call: Call, request: Any) -> Any:
        self.number += 1
        self.sent[id(call)] = request, self.number
        self.oracle.asked(call.api, request, self.number)
        return super().hand_in(call, request)

    def _deliver(self, replies: Sequence[tuple[Any, Any]]) -> None:
        self._catch_up()
        super()._deliver(replies)
        for call, _ in replies:
            request, number = self.sent.pop(id(call))
            if call.api == "JoinGroup" and call.outcome == "NONE":
                self.oracle.joined(call.response)
            elif call.api == "SyncGroup" and call.outcome == "NONE":
                share = assigned(call.response.assignment)
                self.oracle.answered(call.who, request, share, self.number, number)
            elif call.api == "OffsetCommit" and call.outcome == "NONE":
                self.oracle.committed(call.who, places_in(request), number)

    def _hear(self, told: Sequence[NotedFact]) -> None:
        self._catch_up()
        super()._hear(told)
        self.oracle.told(told)

    def _catch_up(self) -> None:
        """The oracle knows what is durable before anybody hears of it."""
        new, self._read = self.log[self._read :], len(self.log)
        if new:
            self.oracle.written(new)

    def crash(self, *deleted: str) -> None:
        self.sent.clear()
        super().crash(*deleted)
        self.oracle.crashed(self.known)
