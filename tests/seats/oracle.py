"""What must hold of partitions and seats, whatever clients, disks and time do.

The oracle sees what is durable, what was answered, and what readers of facts are told; of the
coordinator itself it asks whom it would accept a commit from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.coordinator.facts import (
    GroupEmptied,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    NotedFact,
    SeatReserved,
)
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.step import KeyValue
from groupkeeper.protocol.embedded import decode_subscription
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupSeatKey,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from tests.seats.consumer import Process, assigned
from tests.seats.plans import STICKY, Place, places_of

_BY_HAND = (CauseCode.MEMBER_REMOVED_BY_ADMIN, CauseCode.MEMBER_LEFT)
_NOTHING = b"\0\1\0\0\0\0\xff\xff\xff\xff"


class Broken(AssertionError):
    """A promise about partitions or seats."""


@dataclass
class Durable:
    """What the log says of the group."""

    shares: dict[str, set[Place]] = field(default_factory=dict)
    generation: int = -1
    once: dict[tuple[str, int], set[Place]] = field(default_factory=dict)
    """What a member was given in a generation."""
    seats: set[str] = field(default_factory=set)
    """With a record that was not deleted; of members that `shares` may lack."""
    offsets: dict[Place, int] = field(default_factory=dict)

    @property
    def lost(self) -> set[str]:
        """The seats as a new coordinator finds them."""
        return self.seats & self.shares.keys()

    def take(self, records: Sequence[KeyValue]) -> None:
        for raw, value in records:
            match decode_key(raw):
                case GroupMetadataKey():
                    self._take_group(value)
                case GroupSeatKey(member=member):
                    (self.seats.discard if value is None else self.seats.add)(member)
                case OffsetCommitKey(topic=topic, partition=partition) if value is not None:
                    self._commit((topic, partition), decode_offset_value(value).offset)

    def _take_group(self, value: bytes | None) -> None:
        group = None if value is None else decode_group_value(value)
        members = () if group is None else group.members
        before = self.shares
        self.shares = {
            each.member_id: assigned(each.assignment) if each.assignment else set()
            for each in members
        }
        self._check_shares()
        generation = -1 if group is None else group.generation
        if generation == self.generation and _sorted(before) != _sorted(self.shares):
            raise Broken(f"shares change without a rebalance: {before}, {self.shares}")
        self.generation = generation
        if group is not None and group.protocol == STICKY:
            self._check_fairness(before, [each.subscription for each in members])
        self.once |= {(each, generation): share for each, share in self.shares.items()}

    def _check_fairness(self, before: Mapping[str, set[Place]], metadata: Sequence[bytes]) -> None:
        """A seat keeps what it has, as far as that is no more than an equal share of all."""
        topics = {tuple(decode_subscription(each).topics) for each in metadata}
        if len(topics) != 1:  # what is fair is not that simple then
            return
        places = {*places_of(*topics)}
        fair = len(places) // len(metadata)
        for member_id in self.lost & before.keys():
            held = before[member_id] & places
            kept = held & self.shares[member_id]
            if len(kept) < min(len(held), fair):
                raise Broken(f"the seat of {member_id} keeps {kept} of {held}")

    def _check_shares(self) -> None:
        holders: dict[Place, str] = {}
        for member_id, share in self.shares.items():
            for place in share:
                if place in holders:
                    raise Broken(f"{place} is assigned to {holders[place]} and {member_id}")
                holders[place] = member_id

    def _commit(self, place: Place, offset: int) -> None:
        before = self.offsets.get(place, -1)
        if offset < before:
            raise Broken(f"the offset of {place} goes back from {before} to {offset}")
        self.offsets[place] = offset


@dataclass
class Oracle:
    grace_ms: int
    """As it is set now."""
    durable: Durable = field(default_factory=Durable)
    reserved: dict[str, int] = field(default_factory=dict)
    """Seats of which readers were told, and since when; the first one reserved first."""
    taken: dict[str, str] = field(default_factory=dict)
    """Old id -> the id that took the seat."""
    ended: dict[str, int] = field(default_factory=dict)
    """Seats that ended or were taken without a plan that is durable: a crash undoes that."""
    given_up: set[str] = field(default_factory=set)
    """Ids of which LeaveGroup was sent."""
    left: set[str] = field(default_factory=set)
    """Seats of members that the last crash has left without a record of their own."""
    owners: dict[Place, tuple[int, str]] = field(default_factory=dict)
    """Who was told last that the partition is its own, and after how many requests."""
    happened: dict[str, int] = field(default_factory=dict)
    back: set[str] = field(default_factory=set)
    """Seats of members whose client had joined as another one before they were reserved: they last
    no longer than a scale interval, if at all.
    """
    _early: bool = False
    _joined: dict[str, int] = field(default_factory=dict)
    """When a member of the client id joined last."""

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    # -- what is written and answered --------------------------------------------------------------

    def written(self, records: Sequence[KeyValue]) -> None:
        self.durable.take(records)
        for member_id in list(self.ended):
            if member_id not in self.durable.shares:
                del self.ended[member_id]

    def asked(self, api: str, request: Any, number: int) -> None:
        """A process sends the request of this number."""

    def joined(self, response: Any) -> None:
        """A process is told its generation."""

    def answered(
        self, who: str, request: Any, share: set[Place], number: int, sent: int = 0
    ) -> None:
        """A process is told what it has to consume, after so many requests, of which its own was
        the one of the number `sent`.
        """
        member_id, durable = request.member_id, self.durable
        stored = durable.once.get((member_id, request.generation_id))
        if share != stored:
            raise Broken(f"{member_id} is given {share}, but {stored} is durable")
        if durable.shares.get(member_id) != share or member_id in durable.lost:
            self.count("answer that came too late")
            return
        for place in share:
            self.owners[place] = number, who

    def committed(self, who: str, places: Iterable[Place], number: int) -> None:
        """A commit that was the request of this number was accepted."""
        for place in places:
            since, owner = self.owners.get(place, (-1, ""))
            if owner != who and since <= number:
                raise Broken(f"{who} commits {place}, which {owner} has")

    # -- facts -------------------------------------------------------------------------------------

    def told(self, facts: Sequence[NotedFact]) -> None:
        self._early = False
        first = next(iter(self.reserved.values()), 0)
        for each in facts:
            match each.fact:
                case MemberJoined(who=who):
                    self._joined[who.client_id] = each.now
                case SeatReserved() as seat:
                    self._reserved(seat, each.now)
                case MemberReplaced(old_member=old, who=who, quick=quick):
                    self._replaced(old, who.member, quick)
                case MemberRemoved(who=who, cause=cause) if who.member in self.reserved:
                    self._ended(who.member, cause.code, each.now - first)
                case GroupEmptied():
                    self._early = False
                    if self.reserved:
                        raise Broken(f"the group is empty, and {set(self.reserved)} are reserved")
        if self._early:
            raise Broken("a seat ends before its time, and members are there")

    def _reserved(self, fact: SeatReserved, now: int) -> None:
        who = fact.who
        if who.member in self.reserved:
            raise Broken(f"{who.member} is reserved twice")
        self.reserved[who.member] = now
        heard_ms = now - fact.cause.evidence.get("silent_ms", 0)
        if self._joined.get(who.client_id, -1) > heard_ms:
            self.back.add(who.member)
        self.count("seat reserved")

    def _replaced(self, old: str, new: str, quick: bool) -> None:
        if old in self.taken:
            raise Broken(f"{old} is taken by {self.taken[old]} and {new}")
        self.taken[old] = new
        since = self.reserved.pop(old, None)
        what = "member" if since is None else "seat"
        self.count(f"{what} taken {'at once' if quick else 'with a rebalance'}")
        if since is not None and not quick:
            self.ended[old] = since

    def _ended(self, member_id: str, code: CauseCode, reserved_ms: int) -> None:
        since = self.reserved.pop(member_id)
        self.ended[member_id] = since
        if code in _BY_HAND and member_id in self.given_up:
            self.count("seat given up")
            return
        if code is not CauseCode.SEAT_EXPIRED:
            raise Broken(f"the seat of {member_id} ends for {code}")
        self._early |= reserved_ms < self.grace_ms and member_id not in self.back
        self.count("seat ended with the group" if self._early else "seat ended")

    # -- looking at the coordinator ----------------------------------------------------------------

    def crashed(self, group: Group | None) -> None:
        """A new process has loaded the log."""
        for member_id, since in self.ended.items():
            if member_id in self.durable.shares:
                self.reserved[member_id] = since
        for member_id in self.durable.shares.keys() & self.taken.keys():
            del self.taken[member_id]
        self.ended.clear()
        self.left = self.durable.seats - self.durable.shares.keys()
        known = [each for each in self.reserved.items() if each[0] in self.durable.shares]
        self.reserved = dict(sorted(known, key=lambda each: each[1]))
        self.check_seats(group)

    def check_seats(self, group: Group | None) -> None:
        """Call when nothing is on its way."""
        known = set() if group is None else set(group.seats)
        if known != self.reserved.keys():
            raise Broken(f"seats are {known}, and {set(self.reserved)} were reserved")
        stored = known & self.durable.shares.keys()  # others have the id of a rebalance under way
        if not self.ended and stored != self.durable.lost:
            raise Broken(f"seats are {known}, and {self.durable.lost} are durable")

        is_stable = group is not None and group.state is GroupState.STABLE
        if is_stable and (more := self._kept(group)):
            raise Broken(f"the records of seats that are gone are kept: {more}")

    def _has_missed_one(self, group: Group, process: Process) -> bool:
        """A static cooperative member that was late for a generation says once more what it held,
        until its next assignment, as with Kafka; it does not commit meanwhile.
        """
        kind = process.kind
        may_be_late = kind.instance_id is not None and not kind.eager
        return may_be_late and process.since < group.generation - 1

    def _kept(self, group: Group | None) -> set[str]:
        """Seats with a record, of members without one."""
        return self.durable.seats - self.durable.shares.keys() - self.left

    def check_holders(self, group: Group | None, processes: Iterable[Process]) -> None:
        """A partition is held by one living process that may commit it."""
        if group is None or group.state is GroupState.COMPLETING_REBALANCE:
            return
        holders: dict[Place, str] = {}
        for process in processes:
            if process.ended or not process.held or not accepts(group, process):
                continue
            if self._has_missed_one(group, process):
                continue
            for place in process.held:
                if place in holders:
                    raise Broken(f"{holders[place]} and {process.name} hold {place}")
                holders[place] = process.name


def _sorted(shares: Mapping[str, set[Place]]) -> list[list[Place]]:
    return sorted(sorted(share) for share in shares.values())


def accepts(group: Group, process: Process) -> bool:
    """Whether a commit of the process is accepted: as Kafka's rules are, written down once more."""
    member = group.members.get(process.member_id)
    known = member is not None and process.member_id not in group.seats
    mine = member is not None and member.instance_id == process.kind.instance_id
    return known and mine and process.generation == group.generation


def unowned(group: Group, processes: Iterable[Process], all_places: set[Place]) -> set[Place]:
    """Partitions that neither a living process nor a seat has."""
    held: set[Place] = set()
    for process in processes:
        if not process.ended and accepts(group, process):
            held |= process.held
    for member_id in group.seats:
        held |= assigned(group.members[member_id].assignment or _NOTHING)
    return all_places - held


def places_in(request: Any) -> list[Place]:
    """Of a commit."""
    return [
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ]


def sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """All counts added up."""
    total: dict[str, int] = {}
    for each in counts:
        for what, count in each.items():
            total[what] = total.get(what, 0) + count
    return total
