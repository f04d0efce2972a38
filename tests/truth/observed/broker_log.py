"""Reads from the log lines of Apache Kafka's coordinator why each group rebalanced: the truth.

    truth = read(lines)["billing"]
    truth.rebalances[7].first        # the reason of the rebalance that made generation 7

A rebalance is known by the generation that it made. Kafka logs the first reason when the join
phase begins; who comes and goes while it lasts is logged by itself. Coordinators of several brokers
may each know a group: lines are sorted by their times.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

JOINED, LEFT, EXPIRED = "member_joined", "member_left", "session_expired"
JOIN_TIMEOUT, SYNC_TIMEOUT = "join_timeout", "sync_timeout"
UPDATED, LEADER, RETURNED = "updated", "leader", "returned"
"""Reasons that the log of the coordinator gives, and no code of ours has exactly."""
CHANGED, UNREADY = "static_member_returned_changed", "static_member_returned_unready"
OTHER = "other"
_DOWNGRADE: Final = "Downgrade group"
"""Reason of a rebalance with which a consumer group is made a classic one. The line before says who
of the newer protocol has gone."""
CONSUMER_GONE: Final = frozenset({"left", "fenced"})
"""Codes of members of consumer groups that are gone."""
_SESSION: Final = "session expired"

_ID = r"(?P<member>\S+?)"
_GROUP = r"(?P<group>\S+?)"
_REASON: Final = (
    (JOINED, rf"Adding new member {_ID} with group instance id (?P<instance>\S+?)(;|$)"),
    (UPDATED, rf"Updating metadata for member {_ID} during (?P<state>\w+)"),
    (LEADER, rf"Leader {_ID} re-joining group during (?P<state>\w+)"),
    (LEFT, rf"Removing member {_ID} on LeaveGroup"),
    (LEFT, r"explicit `LeaveGroup` request for \((?P<members>.*)\) members"),
    (EXPIRED, rf"removing member {_ID} on heartbeat expiration"),
    (CHANGED, rf"Group's selectedProtocol will change because static member {_ID} with"),
    (UNREADY, rf"Updating metadata for static member {_ID} with"),
    (SYNC_TIMEOUT, r"Removing (?P<members>.+) on pending sync request expiration"),
)
_JOINS: Final = rf"joins group {_GROUP} in"
_BY_INSTANCE: Final = (
    rf"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id {_JOINS} "
    r"(?P<state>\w+) state\. "
)
_LEAVES: Final = (
    rf"\[Group(Id)? {_GROUP}\] (?P<kind>Dynamic|Static|Pending)? ?[Mm]ember {_ID} "
    r"(with instance id (?P<instance>\S+) )?has left group through explicit `LeaveGroup` request; "
    r"client reason: (?P<reason>.*)"
)
_PREPARING: Final = (
    rf"Preparing to rebalance group {_GROUP} in state \w+ with old generation "
    r"(?P<generation>\d+) \(reason: (?P<reason>.*)\)\."
)
_UNKNOWN_ID: Final = (
    rf"Dynamic member with unknown member id {_JOINS} state \w+\. "
    rf"Created a new member id {_ID} and added the member"
)
_UNSYNCED: Final = rf"Group {_GROUP} removed members who haven't sent their sync requests: "
_OF_CONSUMER: Final = (
    rf"\[GroupId {_GROUP}\] (?:Static m|M)ember {_ID} (?:with instance id (?P<instance>\S+) )?"
)
_LINES: Final = (
    ("preparing", _PREPARING),
    ("stable", rf"Stabilized group {_GROUP} generation (?P<generation>\d+) with"),
    ("empty", rf"Group {_GROUP} with generation (?P<generation>\d+) is now empty"),
    (EXPIRED, rf"Member {_ID} in group {_GROUP} has failed, removing it from the group"),
    (LEFT, _LEAVES),
    (JOIN_TIMEOUT, rf"Group {_GROUP} removed dynamic members who haven't joined: (?P<members>.*)"),
    (SYNC_TIMEOUT, _UNSYNCED + r"(?P<members>.*)"),
    (JOINED, rf"Pending dynamic member with id {_ID} {_JOINS} \w+ state\. Adding to the group"),
    (JOINED, _BY_INSTANCE + rf"Created a new member id {_ID} for this member"),
    (JOINED, _UNKNOWN_ID),
    (RETURNED, _BY_INSTANCE + rf"Replacing previously mapped member {_ID} with"),
    ("loaded", rf"Loaded classic group {_GROUP} with (?P<generation>\d+) members"),
    ("consumer replaced", _OF_CONSUMER + "re-joins the consumer group using the"),
    ("consumer joined", _OF_CONSUMER + "joins the consumer group using the"),
    ("consumer bumped", rf"\[GroupId {_GROUP}\] Bumped group epoch to (?P<generation>\d+) "),
    ("consumer left", _OF_CONSUMER + "left the consumer group"),
    ("consumer fenced", _OF_CONSUMER + r"fenced from the group because (?P<reason>.*)"),
)
_COMPILED: Final = [(kind, re.compile(pattern)) for kind, pattern in _LINES]
_REASONS: Final = [(code, re.compile(pattern)) for code, pattern in _REASON]
_COORDINATOR: Final = re.compile(r"^\[GroupCoordinator id=\d+[^\]]*\] ")
_TIME: Final = re.compile(r"(\d{13}) ")
_UUID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_MEMBER_IDS: Final = re.compile(r"[^\s,\[\]{}()=]+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Reason:
    """What a member did, or what became of it. `text`: what the client said, or the whole line."""

    code: str
    member: str = ""
    at_ms: int = 0
    text: str = ""
    is_static: bool = False

    @property
    def name(self) -> str:
        """The member's client id, or instance id: its id without what the coordinator added."""
        return _UUID.sub("", self.member)


@dataclass(slots=True)
class Rebalance:
    """One rebalance, which made `generation`. `first` is None if its begin was not logged, as of a
    generation that another coordinator made.
    """

    generation: int
    at_ms: int = 0
    first: Reason | None = None
    also: list[Reason] = field(default_factory=list)
    """All who came and went since the one before, the first reason too."""
    ended: str = ""
    """`stable`, `empty`, or nothing for one that made no assignment."""


@dataclass(frozen=True, slots=True)
class EpochTruth:
    """An epoch of a consumer group: when it began, and who came and went since the one before."""

    at_ms: int
    reasons: tuple[Reason, ...] = ()


@dataclass(slots=True)
class GroupTruth:
    """The rebalances of a group, by the generation that they made."""

    rebalances: dict[int, Rebalance] = field(default_factory=dict)
    consumer: list[Reason] = field(default_factory=list)
    """Of a consumer group: who came and went."""
    epochs: dict[int, EpochTruth] = field(default_factory=dict)
    """Of a consumer group: its epochs."""
    loads: int = 0
    _since: list[Reason] = field(default_factory=list)
    _under_way: Rebalance | None = None

    def take(self, kind: str, found: dict[str, str], at_ms: int) -> None:
        """Add a line."""
        if kind == "consumer bumped":
            self.epochs[int(found["generation"])] = EpochTruth(at_ms, tuple(self._since))
            self._since = []
        elif kind.startswith("consumer "):
            text, is_static = found.get("reason", ""), bool(found.get("instance"))
            reason = Reason(kind[9:], found["member"], at_ms, text, is_static)
            self.consumer.append(reason)
            self._since.append(reason)
        elif kind == "loaded":
            self.loads += 1
        elif kind == "preparing":
            self._prepare(found, at_ms)
        elif kind in {"stable", "empty"}:
            self._end(kind, int(found["generation"]))
        elif kind in {JOIN_TIMEOUT, SYNC_TIMEOUT}:
            for each in _MEMBER_IDS.findall(found["members"]):
                self._note(Reason(kind, each, at_ms))
        elif found.get("kind") != "Pending":
            text, is_static = found.get("reason", ""), bool(found.get("instance"))
            self._note(Reason(kind, found["member"], at_ms, text, is_static))

    def _note(self, reason: Reason) -> None:
        (self._since if self._under_way is None else self._under_way.also).append(reason)

    def _prepare(self, found: dict[str, str], at_ms: int) -> None:
        first = _reason(found["reason"], at_ms)
        last = self.consumer[-1] if self.consumer else None
        if _DOWNGRADE in found["reason"] and last is not None and last.code in CONSUMER_GONE:
            first = replace(last, code=consumer_code(last))
        made = Rebalance(int(found["generation"]) + 1, at_ms, first)
        before = self._under_way
        made.also = self._since if before is None else []
        if before is not None and before.generation == made.generation:
            made.also = before.also
        made.first = _named(made.first, made.also)
        self.rebalances[made.generation] = self._under_way = made
        self._since = []

    def _end(self, kind: str, generation: int) -> None:
        made = self._under_way
        if made is None or made.generation != generation:
            made = self.rebalances.setdefault(generation, Rebalance(generation))
            made.also += self._since
            self._since = []
        made.ended = kind
        # In the sync phase members may still come and go: that begins the next rebalance.
        self._under_way = None


def _named(first: Reason | None, also: list[Reason]) -> Reason | None:
    """The first reason with the member of the line before it, where it names none."""
    if first is None or first.member:
        return first
    return next((each for each in also if each.code == first.code), first)


def consumer_code(reason: Reason) -> str:
    """The code of what a member of a consumer group did, or what became of it."""
    if reason.code == "joined":
        return "static_member_joined" if reason.is_static else JOINED
    if reason.code == "replaced":
        return CHANGED
    if reason.code == "left":
        return LEFT
    return EXPIRED if _SESSION in reason.text else JOIN_TIMEOUT


def _reason(text: str, at_ms: int) -> Reason:
    for code, pattern in _REASONS:
        if match := pattern.search(text):
            found = match.groupdict()
            members = _MEMBER_IDS.findall(found.get("members") or "")
            member = found.get("member") or (members[0] if len(members) == 1 else "")
            is_static = (found.get("instance") or "null") != "null"
            return Reason(code, member, at_ms, text, is_static)
    return Reason(OTHER, "", at_ms, text)


def read(lines: Iterable[str]) -> dict[str, GroupTruth]:
    """The truth of each group that the lines name."""
    timed = []
    for number, line in enumerate(lines):
        if match := _TIME.match(line):
            timed.append((int(match[1]), number, line[match.end() :]))
    groups: dict[str, GroupTruth] = {}
    for at_ms, _, whole in sorted(timed):
        text = _COORDINATOR.sub("", whole)
        for kind, pattern in _COMPILED:
            if match := pattern.search(text):
                found = {key: value or "" for key, value in match.groupdict().items()}
                groups.setdefault(found["group"], GroupTruth()).take(kind, found, at_ms)
                break
    return groups
