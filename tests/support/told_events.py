"""Group events written by hand, as the stored format has them.

told = Told()
told.started(cause("session_expired", who("billing-1", host="/10.0.0.7"), silent_ms=10_000))
told.at(40).completed(moved=2)
[round_] = told.rounds()
"""

from collections.abc import Sequence
from typing import Any, Self

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, Round
from groupkeeper.protocol.group_events import Event, decode, encode

NOON = 1_763_812_800_000
"""2025-11-22 12:00:00 UTC, in ms."""


def who(member: str = "m1", **fields: Any) -> dict[str, Any]:
    """A member with all fields of the format."""
    return {
        "member": member,
        "instance": None,
        "client_id": "billing",
        "host": "/10.0.0.7",
        "software": None,
        "api_version": None,
        "principal": None,
    } | fields


def cause(
    code: str,
    by: dict[str, Any] | None = None,
    *,
    likely: str | None = None,
    reason: str | None = None,
    **evidence: Any,
) -> dict[str, Any]:
    return {
        "code": code,
        "who": by,
        "reason": reason,
        "reason_cut": False,
        "likely": likely,
        "evidence": evidence,
    }


class Told:
    """A partition's events, in order; each has passed through its stored form."""

    def __init__(self, group: str = "g") -> None:
        self.group = group
        self.events: list[Event] = []
        self.epoch = 1
        self.round = 0
        self.generation = 0
        self._ms = 0

    def at(self, ms: int) -> Self:
        """Let the next events be at this time: `told.at(40).completed()`."""
        self._ms = ms
        return self

    def loaded(self, at_ms: int | None = None) -> None:
        """Another coordinator loads the partition."""
        self.epoch, self.round = self.epoch + 1, 0
        self._ms = self._ms if at_ms is None else at_ms
        self.tell("coordinator_loaded", records=9, groups=1, members=2, duration_ms=5)

    def tell(self, type_: str, *, round_: int = 0, state: str = "Stable", **fields: Any) -> None:
        of_partition = type_.startswith("coordinator_")
        event = Event(
            seq=len(self.events),
            epoch=self.epoch,
            node=0,
            at_ms=NOON + self._ms,
            mono_ms=self._ms,
            group=None if of_partition else self.group,
            type=type_,
            generation=self.generation,
            state=state,
            round=round_,
            fields=fields,
        )
        key = None if event.group is None else event.group.encode()
        self.events.append(decode(key, encode(event)))

    # -- a round, step by step -------------------------------------------------------------------

    def started(self, why: dict[str, Any], *, from_state: str = "Stable", members: int = 3) -> None:
        self.round += 1
        self.tell(
            "rebalance_started",
            round_=self.round,
            state="PreparingRebalance",
            cause=why,
            from_state=from_state,
            members=members,
            expected=[],
            deadline_ms=60_000,
        )

    def added(self, why: dict[str, Any]) -> None:
        self.during("rebalance_cause_added", cause=why)

    def during(self, type_: str, **fields: Any) -> None:
        self.tell(type_, round_=self.round, state="PreparingRebalance", **fields)

    def joined(
        self,
        *arrivals: tuple[str, int],
        missing: Sequence[dict[str, Any]] = (),
        protocol: str = "range",
        duration_ms: int = 3_000,
        **fields: Any,
    ) -> None:
        """`arrivals`: member ids, and after how many ms."""
        self.generation += 1
        self.tell(
            "rebalance_joined",
            round_=self.round,
            state="CompletingRebalance",
            leader=arrivals[0][0],
            protocol=protocol,
            duration_ms=duration_ms,
            joined=[{"member": m, "instance": None, "after_ms": ms} for m, ms in arrivals],
            missing=[*missing],
            ended_by="timeout" if missing else "all_joined",
            last=arrivals[-1][0],
            **fields,
        )

    def completed(
        self, *, duration_ms: int = 3_000, moved: int | None = 2, leader_ms: int = 10, **fields: Any
    ) -> None:
        plan = [{"member": "m1", "instance": None, "partitions": {"orders": [0, 1, 2, 3]}}]
        more = {"assignment": plan, "unassigned_ms": duration_ms} | fields
        self.tell(
            "rebalance_completed",
            round_=self.round,
            leader_ms=leader_ms,
            duration_ms=duration_ms,
            moved=moved,
            **more,
        )

    def abandoned(self, why: str) -> None:
        self.tell("rebalance_abandoned", round_=self.round, why=why)

    # -- folded ----------------------------------------------------------------------------------

    def entries(self) -> list[HistoryEntry]:
        folding = Folding()
        entries = [entry for event in self.events for entry in folding.add(event)]
        entries += folding.rest()
        find_returns(entries)
        return entries

    def rounds(self) -> list[Round]:
        return [each for each in self.entries() if isinstance(each, Round)]
