"""Moves the time of a test broker ahead, through all that is due on the way.

Theory of operation. `advance` lets time stand still, and goes from one deadline of the groups to
the next: it moves the time there, lets the timer do its work, and waits until what was decided is
written and answered. Between two deadlines nothing can happen, so a week takes no longer than its
deadlines. Real clients live by the machine's clock, which two rules take into account.

1. *Who is heard of stays.* A member whose connection is open, and whose heartbeats came until now,
   is treated as if they went on at their own rate (`liveness.keep_alive`). Who is to be silent is:
   requests of such members are kept back until the time is reached.
2. *Who has to answer gets the time for it.* Where a group waits for such members (to join after
   their next heartbeat, to sync, or to come back after a restart of the broker), the time stands
   still until they have done so, or a number of real seconds has passed. Then time goes on without
   them: the coordinator treats them as it treats everybody.

Retention of topics and of the archive, and compaction, look at the end whether they are due.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from math import isfinite
from typing import Final

from groupkeeper.coordinator import likely
from groupkeeper.coordinator.deadlines import Timer
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.liveness import (
    heartbeat_interval,
    keep_alive,
    last_heard,
    session_timer,
)
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.step import Step
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.server.server import Server
from groupkeeper.testing import arguments
from groupkeeper.testing.clock import Time
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.lives import Lives
from groupkeeper.testing.presence import Presence
from groupkeeper.turns import TURN_S, when_read

TIMEOUT_S: Final = 5.0
"""How many real seconds `advance` waits for members, each time that a group waits for them: longer
than clients' default heartbeat interval of 3 s, after which they know that they have to join."""
MOST_S: Final = 366 * 24 * 3600
"""The most that one `advance` moves: a year. It stops at each check of expired offsets, every ten
minutes by default."""
LOOK_S: Final = 0.002
"""How often it looks whether members have answered, in real seconds."""
READ_S: Final = 1.0
"""The longest that it reads what clients have sent before, in real seconds."""
NAMED: Final = 20
"""How many members an error names."""

Awaited = tuple[str, int, str, str]
"""A member that its group waits for: group id, round, state, member id."""


def milliseconds(seconds: float) -> int:
    """Of an argument. Raises TypeError and ValueError, each with one line."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"advance() takes a number of seconds, not {seconds!r}")
    if not isfinite(seconds) or not 0 <= seconds <= MOST_S:
        raise ValueError(f"advance() takes 0 to {MOST_S} seconds (a year), not {seconds!r}")
    return round(seconds * 1000)


class TimeControl:
    """Moves the time of a broker. For any thread."""

    def __init__(self, lives: Lives, source: Time, presence: Presence) -> None:
        self._lives = lives
        self._time = source
        self._presence = presence

    def created(self, server: Server) -> None:
        """The broker has a new server."""
        self._mover = _Mover(self._time, self._presence, server)

    def advance(
        self, seconds: float, silent: Collection[str], everyone: bool, timeout_s: float
    ) -> None:
        """See `Broker.advance`."""
        ms = milliseconds(seconds)
        names = arguments.names(silent, "silent=")
        timeout_s = arguments.timeout_of(timeout_s)
        if self._lives.is_up:
            running = self._lives.running
            self._lives.run(lambda: self._mover.advance(ms, names, everyone, timeout_s))
            if self._lives.running is not running:  # it came to its end while the server ended
                raise BrokerDown("the broker ended while its time was moved")
        elif names or everyone:
            raise BrokerDown("silent= and all= are about members, and the broker does not run")
        else:
            self._time.move_to(self._time.now() + ms)

    def freeze(self) -> None:
        """See `Broker.freeze`."""
        self._change(self._time.freeze)

    def resume(self) -> None:
        """See `Broker.resume`."""
        self._change(self._time.resume)

    def _change(self, change: Callable[[], None]) -> None:
        if self._lives.is_up:
            self._lives.run(lambda: self._mover.change(change))
        else:
            change()


class _Mover:
    """Moves the time of one server; on the thread of its loop."""

    def __init__(self, source: Time, presence: Presence, server: Server) -> None:
        self._time = source
        self._presence = presence
        self._server = server
        self._one_at_a_time = asyncio.Lock()

    async def change(self, change: Callable[[], None]) -> None:
        """Let time stand still, or run, when it is not being moved."""
        async with self._one_at_a_time:
            change()

    async def advance(
        self, ms: int, silent: Collection[str], everyone: bool, timeout_s: float
    ) -> None:
        """Move ahead by so many ms. `silent`: ids of members, instances or clients whose members
        are silent; with `everyone`, all are. `timeout_s`: see `TIMEOUT_S`. Raises RequestFailed.
        """
        async with self._one_at_a_time:
            await self._read()
            members = _silent(self._members(), silent, everyone)
            ran = not self._time.is_frozen
            self._time.freeze()
            try:
                with self._presence.silence(members):
                    walk = _Walk(self._time, self._presence, self._server, members, timeout_s)
                    await walk.to(self._time.now() + ms)
            finally:
                if ran:
                    self._time.resume()

    async def _read(self) -> None:
        """Serve what clients have sent, and notice which of them are gone."""
        read = asyncio.Event()
        when_read(self._server.turns, read.set, READ_S)
        await read.wait()

    def _members(self) -> Iterator[Member]:
        for driver in self._server.group_partitions:
            for group in groups_of(driver):
                yield from group.members.values()


def groups_of(driver: PartitionDriver) -> Iterator[Group]:
    """The groups of a partition as they are now; none unless it is active."""
    if not driver.absence:
        for group_id in driver.group_ids():
            group = driver.peek(group_id)
            if group is not None:
                yield group


def names_of(member: Member) -> list[str]:
    """What a test may call a member: its member id, instance id, or client id."""
    who = member.who
    return [member.member_id, *filter(None, (member.instance_id, who.client_id, member.client_id))]


def _silent(members: Iterator[Member], names: Collection[str], everyone: bool) -> frozenset[str]:
    """Member ids. Raises RequestFailed if a name fits no member."""
    found, unknown = set[str](), dict.fromkeys(names)
    known: dict[str, None] = {}
    for member in members:
        own = names_of(member)
        known.update(dict.fromkeys(own))
        if everyone or not unknown.keys().isdisjoint(own):
            found.add(member.member_id)
    missing = [repr(name) for name in unknown if name not in known]
    if missing:
        there = ", ".join(list(known)[:NAMED]) or "there are no members"
        raise RequestFailed(f"silent= names {', '.join(missing)}, which is no member: {there}")
    return frozenset(found)


class _Walk:
    """One way to a later time, which stands still meanwhile."""

    def __init__(
        self,
        source: Time,
        presence: Presence,
        server: Server,
        silent: Collection[str],
        timeout_s: float,
    ) -> None:
        self._time = source
        self._presence = presence
        self._server = server
        self._silent = silent
        self._timeout_s = timeout_s
        self._given_up: set[Awaited] = set()
        """Members that were waited for long enough."""
        self._heard: set[str] = set()
        """Members that were heard of when they were looked at first. A machine that is busy for
        seconds must not make them silent on the way; whom groups wait for is bounded anyway.
        """
        self._busy_since = time.monotonic()

    async def to(self, target: int) -> None:
        """Go there, by all deadlines on the way."""
        await self._server.group_partitions.loaded(self._timeout_s)
        await self._members_answer()
        while (at := self._next_deadline(target)) is not None:
            await self._stop_at(at)
            await self._members_answer()
        await self._stop_at(target)
        await self._server.topics.retention.caught_up(target)

    def _next_deadline(self, target: int) -> int | None:
        """The first one up to the target that heartbeats do not move."""
        first: int | None = None
        for driver in self._drivers:
            kept = self._kept(driver)
            for timer, due in driver.timers.items():
                if due <= target and (first is None or due < first) and timer not in kept:
                    first = due
        return first

    async def _stop_at(self, at: int) -> None:
        """Move to a time, and do what is due then."""
        self._time.move_to(at)
        for driver in self._drivers:
            kept = self._kept(driver)
            if kept:
                driver.decide(_heartbeats(kept))
        await self.handled()

    async def handled(self) -> None:
        """Wait until what is due is done, written and answered."""
        for driver in self._drivers:
            while self._is_due(driver):
                await asyncio.sleep(0)
                await driver.durable()
            await driver.durable()
        if time.monotonic() - self._busy_since > TURN_S:
            await self._server.turns.wait()
            self._busy_since = time.monotonic()

    def _is_due(self, driver: PartitionDriver) -> bool:
        now = self._time.now()
        return any(due <= now for due in driver.timers.values())

    @property
    def _drivers(self) -> Collection[PartitionDriver]:
        return list(self._server.group_partitions)

    # -- members that are heard of -------------------------------------------------------------

    def _kept(self, driver: PartitionDriver) -> dict[Timer, tuple[Group, Member, int]]:
        """By the timers of their sessions, with the distance of their heartbeats in ms."""
        kept: dict[Timer, tuple[Group, Member, int]] = {}
        for group in groups_of(driver):
            for member in group.members.values():
                timer = session_timer(group, member)
                interval_ms = self._interval(member, driver.timers.get(timer))
                if interval_ms is not None:
                    kept[timer] = group, member, interval_ms
        return kept

    def _interval(self, member: Member, due: int | None) -> int | None:
        """The distance of a member's heartbeats in ms; None if it is not heard of any more."""
        peer = member.peer
        if member.member_id in self._silent or peer is None or peer.link.closed:
            return None
        now = self._time.now()
        heard_ms = last_heard(member, due, now)
        interval_ms = heartbeat_interval(member, heard_ms)
        known = self._presence.of(member.member_id)
        silent_ms = now - heard_ms
        if known is not None:
            silent_ms, interval_ms = known[0], known[1] or interval_ms
        session_ms = member.session_timeout_ms
        interval_ms = interval_ms or min(likely.HEARTBEAT_MS, max(session_ms // 3, 1))
        if member.waits or likely.runs(silent_ms, interval_ms):
            self._heard.add(member.member_id)
        return interval_ms if member.member_id in self._heard and interval_ms < session_ms else None

    async def _members_answer(self) -> None:
        """Wait for members that have to answer, in real time."""
        until = time.monotonic() + self._timeout_s
        while awaited := set(self._awaited()) - self._given_up:
            if time.monotonic() >= until:
                self._given_up |= awaited
                return
            await asyncio.sleep(LOOK_S)

    def _awaited(self) -> Iterator[Awaited]:
        """The members that groups wait for, and that are heard of."""
        for driver in self._drivers:
            kept = self._kept(driver)
            for group in groups_of(driver):
                for member_id in _expected(group):
                    member = group.members[member_id]
                    unheard = group.returning is not None and member.peer is None
                    if member_id not in self._silent and (
                        unheard or session_timer(group, member) in kept
                    ):
                        yield group.group_id, group.round, str(group.state), member_id


def _heartbeats(kept: dict[Timer, tuple[Group, Member, int]]) -> Callable[[Step], None]:
    def decide(step: Step) -> None:
        for group, member, interval_ms in kept.values():
            keep_alive(group, member, interval_ms, step)

    return decide


def _expected(group: Group) -> list[str]:
    """Ids of members whose requests the group waits for; after a restart, of those that have not
    been heard of.
    """
    if group.returning is not None:
        return list(group.returning.unheard)
    if group.state is GroupState.COMPLETING_REBALANCE:
        return list(group.pending_sync)
    if group.state is GroupState.PREPARING_REBALANCE:
        return [each.member_id for each in group.members.values() if each.awaiting_join is None]
    return []
