"""Estimates how long partitions had no reader because of a rebalance, in partition-milliseconds.

One partition that nobody reads for one millisecond is the unit in which incidents and settings are
compared. An estimate is low where something is unknown: what happened never seems worse than it
was.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from groupkeeper.history.fields import Part, number
from groupkeeper.protocol.group_events import Event

if TYPE_CHECKING:
    from groupkeeper.history.rounds import Round

Shares = Mapping[str, int]
"""Member id -> number of its partitions."""


class Incident(NamedTuple):
    """The loss of members and their return, in partition-milliseconds that nobody read."""

    now_ms: int | None
    """In all rounds of it; None if any is unknown, or had other causes, too."""
    absent_ms: int | None
    """Partitions of the members that came back, times their absence; None if unknown."""
    gone: int | None
    """Partitions of the members that did not come back."""


def keeps_partitions(current: "Round") -> bool:
    """Return whether members kept their partitions while they rejoined: by what they said to own,
    or, in events of servers that did not store it, by the name of the protocol.
    """
    if current.kept is not None:
        return current.kept
    return "cooperative" in (current.protocol or "")


# Any: JSON.
def heard_ms(removed: Mapping[str, Any]) -> int:
    """Return the time of a removed member's last request, in Unix ms."""
    evidence = removed.get("cause", {}).get("evidence", {})
    at_ms: int = removed["at_ms"]
    return at_ms - (number(evidence, "silent_ms") or 0)


def gone_ms(removed: Mapping[str, Any]) -> int:
    """Return from when on a removed member was gone, in Unix ms: its last request, or the removal
    if no request came since the coordinator was loaded, as it may have lived until then.
    """
    evidence = (removed.get("cause") or {}).get("evidence") or {}
    is_unheard = evidence.get("connection", "") is None
    at_ms: int = removed["at_ms"]
    return at_ms if is_unheard else heard_ms(removed)


def unread_ms(current: "Round", shares: Shares) -> int | None:
    """Return the partition-milliseconds without a reader in a round that is over: of removed
    members from their last request on, of others from when they rejoined. `shares`: the assignment
    before the round. None without a start.
    """
    end_ms, start_ms = current.ended_at_ms, current.started_at_ms
    if end_ms is None or start_ms is None:
        return None
    gone = {each["who"].get("member", ""): each for each in current.removed}
    unread: int = sum(
        shares.get(member, 0) * max(0, end_ms - heard_ms(each)) for member, each in gone.items()
    )
    if keeps_partitions(current):
        held = sum(shares.get(member, 0) for member in gone)
        return unread + max(0, (current.moved or 0) - held) * (current.unassigned_ms or 0)
    from_ms = {each["member"]: each.get("after_ms", 0) for each in current.joined}
    from_ms |= {each["member"]: 0 for each in current.missing}
    for member, after_ms in from_ms.items():
        if member not in gone:
            unread += shares.get(member, 0) * max(0, end_ms - start_ms - after_ms)
    return unread


class RoundCosts:
    """The assignment and the members' timeouts of one group, and what its rounds cost."""

    protocol_type: str | None
    shares: dict[str, int] | None
    """Number of partitions by member id; None if the last assignment is unknown."""
    timeouts: dict[str, tuple[int, int]]
    """Session and rebalance timeout by member id, as far as they were seen."""

    def __init__(self) -> None:
        self.protocol_type = self.shares = None
        self.timeouts = {}
        self._left: tuple[int, int] | None = None
        """Number of partitions that had a reader when the last member went, and the time of that,
        in Unix ms; None while the group has members."""

    def meet(self, event: Event) -> None:
        """Keep the timeouts of a member; give its partitions to its new id, or to a standby; take
        over what the server moved.
        """
        fields = event.fields
        if event.type == "assignment_changed" and self.shares is not None:
            for each in fields.get("assignment") or ():
                self.shares[each["member"]] = sum(map(len, (each.get("partitions") or {}).values()))
        if not event.type.startswith("member_") and event.type != "standby_activated":
            return
        member = (fields.get("who") or {}).get("member")
        timeouts = fields.get("session_timeout_ms"), fields.get("rebalance_timeout_ms")
        if member and timeouts[0] is not None and timeouts[1] is not None:
            self.timeouts[member] = timeouts[0], timeouts[1]
        old = fields.get("old_member")
        if member and old:
            self.timeouts.pop(old, None)
            if self.shares is not None and old in self.shares:
                self.shares[member] = self.shares.pop(old)

    def close(self, current: "Round", people: Mapping[str, Part]) -> None:
        """Set the partitions of the removed members of a round, its cost, and its clients.
        `people`: the members by id, as far as they were seen.
        """
        shares = self.shares
        current.removed = [
            {**each, "partitions": _held(shares, each["who"])} for each in current.removed
        ]
        if shares is not None:
            current.unread_ms = unread_ms(current, shares)
        seen = [each["who"] for each in (*current.removed, *current.added, *current.replaced)]
        seen += [people[m] for each in current.joined if (m := each["member"]) in people]
        current.clients = [*{_software(each): each for each in seen}.values()]
        self._tell_timeouts(current)

    def emptied(self, at_ms: int) -> None:
        """Note that the last member went, and with it the reader of all partitions."""
        self._left = None if self.shares is None else (sum(self.shares.values()), at_ms)
        self.shares = {}

    def completed(self, current: "Round", assignment: Iterable[Part] | None) -> None:
        """Add the time in which the group was empty to the round that ended it, and keep the
        assignment for the next one; None if it is unknown.
        """
        if self._left is not None and current.ended_at_ms is not None:
            partitions, since_ms = self._left
            empty_ms = max(0, current.ended_at_ms - since_ms)
            current.unread_ms = (current.unread_ms or 0) + partitions * empty_ms
        self._left = None
        self._assigned(assignment)

    def _tell_timeouts(self, current: "Round") -> None:
        """Set the timeouts of the member that was lost, or else triggered the round."""
        about = [each["who"] for each in current.removed] + [(current.cause or {}).get("who") or {}]
        for who in about:
            known = self.timeouts.get(who.get("member") or "")
            if known is not None:
                current.session_timeout_ms = current.session_timeout_ms or known[0]
                current.rebalance_timeout_ms = known[1]
                return

    def forget(self, members: Iterable[str]) -> None:
        """Drop the timeouts of members except these."""
        stay = self.timeouts.keys() & set(members)
        self.timeouts = {member: self.timeouts[member] for member in stay}

    def _assigned(self, assignment: Iterable[Part] | None) -> None:
        self.shares = None
        if assignment is not None:
            self.shares = {
                each["member"]: sum(map(len, (each.get("partitions") or {}).values()))
                for each in assignment
            }


def _held(shares: Shares | None, who: Part) -> int | None:
    return None if shares is None else shares.get(who.get("member", ""), 0)


def _software(who: Part) -> str:
    """Return what tells the software of clients apart: its name and version, or the client id."""
    return str(who.get("software") or who.get("client_id"))
