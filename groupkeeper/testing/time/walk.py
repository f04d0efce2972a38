"""Moves the clock of a test broker forward, and runs everything that becomes due on the way.

Theory of operation. `advance` stops the clock and steps from one group deadline to the next: it
sets the clock to the deadline, lets the timer run, and waits until the resulting writes are durable
and the responses are sent. Nothing can happen between two deadlines, so a week takes no longer than
its deadlines. Real clients follow the machine's clock, which requires two rules.

1. *Live members stay.* A member with an open connection and recent heartbeats is treated as if its
   heartbeats continued at the same rate (`liveness.keep_alive`). The requests of silent members are
   held until the target time is reached.
2. *Live members get time to respond.* When a group waits for a live member (to join after its next
   heartbeat, to sync, or to return after a restart of the broker), the clock stops until the
   request arrives, or for a limited real time. After that the member is treated as any other.

Retention of topics and of the archive, and compaction, run at the end if they are due.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final

from groupkeeper.coordinator import likely
from groupkeeper.coordinator.caller import Link
from groupkeeper.coordinator.deadlines import Timer, TimerKind
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
from groupkeeper.testing.host import Host
from groupkeeper.turns import TURN_S, Slices

LOOK_S: Final = 0.002
"""Real interval between checks for the requests of awaited members."""
MEMBERS_IN_A_SLICE: Final = 50
"""Number of simulated heartbeats per slice, which takes less than a millisecond."""
CHECK: Final = Timer(TimerKind.OFFSET_EXPIRY)

_Awaited = tuple[str, int, str, str]
"""A member awaited by its group: (group id, round, state, member id)."""
Kept = tuple[Group, Member, int]
"""A live member, and its heartbeat interval in ms."""


def groups_with_members(driver: PartitionDriver) -> Iterator[Group]:
    """The groups of a partition that have members, and hence a timer; none if it is inactive."""
    for group_id in dict.fromkeys(timer.group_id for timer in driver.timers):
        group = driver.peek(group_id)
        if group is not None and group.members:
            yield group


def members_of(driver: PartitionDriver) -> Iterator[tuple[Group, Member]]:
    """All members of a partition's groups, with their groups."""
    for group in groups_with_members(driver):
        for member in group.members.values():
            yield group, member


class Walk:
    """One move of the clock to a later time. The clock is stopped during the walk."""

    def __init__(
        self, bench: Host, server: Server, silent: Collection[str], timeout_s: float
    ) -> None:
        self._bench = bench
        self._time = bench.time
        self._server = server
        self._silent = silent
        self._timeout_s = timeout_s
        self._given_up: set[_Awaited] = set()
        """Awaited members whose timeout has passed."""
        self._heard: set[str] = set()
        """Members found live at their first check. They stay live for the whole walk, even on a
        machine that is busy for seconds; waiting for them is bounded anyway."""
        self._kept: dict[Timer, Link] = {}
        """Connections of live members, by session timer."""
        self._expiries: dict[PartitionDriver, tuple[object, int | None]] = {}
        """Result of `first_expiry`, with the partition's mark for which it is valid."""
        self._busy_since = time.monotonic()

    async def to(self, target: int) -> None:
        """Move to the target time, stopping at each deadline."""
        await self._server.group_partitions.loaded(self._timeout_s)
        await self._server.turns.run(self._beat())
        await self._members_answer()
        while (at := await self._next_stop(target)) is not None:
            await self._stop_at(at)
            await self._members_answer()
        await self._stop_at(target)
        await self._server.topics.retention.caught_up(target)

    @property
    def late(self) -> list[str]:
        """Ids of members whose awaited requests did not arrive in time."""
        return sorted({member_id for *_, member_id in self._given_up})

    async def _stop_at(self, at: int) -> None:
        """Move to a time, and run everything due then."""
        self._time.move_to(at, ring=False)  # first extend sessions, so that none expires
        try:
            await self._server.turns.run(self._beat())
        finally:
            self._time.moved()
        await self.handled()

    async def handled(self) -> None:
        """Wait until due timers have run, their writes are durable, and responses are sent."""
        for driver in self._drivers:
            while driver.is_due():
                await asyncio.sleep(0)
                await driver.durable()
            await driver.durable()
        if time.monotonic() - self._busy_since > TURN_S:
            await self._server.turns.wait()
            self._busy_since = time.monotonic()

    @property
    def _drivers(self) -> Collection[PartitionDriver]:
        return list(self._server.group_partitions)

    # -- where to stop -------------------------------------------------------------------------

    async def _next_stop(self, target: int) -> int | None:
        """Return the first deadline up to the target that needs a stop. Sessions of live members
        do not, nor do checks for expired offsets that would remove nothing.
        """
        for driver in self._drivers:
            if driver.timers.get(CHECK, target + 1) <= target:
                await self._look_for_expiries(driver)
        first = self._first_due(target)
        until = target + 1 if first is None else first
        for driver in self._drivers:
            check = self._next_check(driver, until)
            if check is not None and check <= target and (first is None or check < first):
                first = check
        return first

    def _first_due(self, target: int) -> int | None:
        first: int | None = None
        for driver in self._drivers:
            for timer, due in driver.timers.items():
                if (
                    due <= target
                    and (first is None or due < first)
                    and timer != CHECK
                    and not self._is_kept(driver, timer)
                ):
                    first = due
        return first

    async def _look_for_expiries(self, driver: PartitionDriver) -> None:
        mark = driver.mark
        if self._expiries.get(driver, (None,))[0] != mark:
            first = await self._server.turns.run(driver.first_expiry())
            self._expiries[driver] = mark, first

    def _next_check(self, driver: PartitionDriver, until: int) -> int | None:
        """Return the time of the next offset expiry check, skipping useless ones before `until`."""
        mark, first = self._expiries.get(driver, (None, None))
        if mark == driver.mark:  # else unknown, or outdated by a change
            if first is not None:
                until = min(until, first - self._time.wall() + self._time.now())
            if driver.timers.get(CHECK, until) < until:
                driver.decide(partial(_put_off_check, until=until))
        return driver.timers.get(CHECK)

    # -- live members --------------------------------------------------------------------------

    def _beat(self) -> Slices[None]:
        """Simulate the heartbeats of live members."""
        kept = dict[Timer, Link]()
        for driver in self._drivers:
            timers = [
                session_timer(group, member)
                for group, member in members_of(driver)
                if member.member_id not in self._silent
            ]
            for at in range(0, len(timers), MEMBERS_IN_A_SLICE):
                found = dict[Timer, Kept]()
                for timer in timers[at : at + MEMBERS_IN_A_SLICE]:
                    each = self._look(driver, timer)
                    if each is not None and each[1].peer is not None:
                        found[timer] = each
                        kept[timer] = each[1].peer.link
                if found and not driver.absence:
                    driver.decide(_heartbeats(found.values()))
                yield
        self._kept = kept

    def _is_kept(self, driver: PartitionDriver, timer: Timer) -> bool:
        """Whether the timer is the session timer of a live member."""
        if timer.kind is not TimerKind.SESSION:
            return False
        link = self._kept.get(timer)
        if link is not None and not link.closed:
            return True
        return self._look(driver, timer) is not None

    def _look(self, driver: PartitionDriver, timer: Timer) -> Kept | None:
        """Return the member of a session timer if it is live, else None."""
        group = None if driver.absence else driver.peek(timer.group_id)
        member = None if group is None else group.members.get(timer.member_id)
        if group is None or member is None:
            return None
        interval_ms = self._interval(member, driver.timers.get(timer))
        return None if interval_ms is None else (group, member, interval_ms)

    def _interval(self, member: Member, due: int | None) -> int | None:
        """Return a member's heartbeat interval in ms; None if the member is not live."""
        peer = member.peer
        if member.member_id in self._silent or peer is None or peer.link.closed:
            return None
        now = self._time.now()
        heard_ms = last_heard(member, due, now)
        interval_ms = heartbeat_interval(member, heard_ms)
        known = self._bench.presence.of(member.member_id)
        silent_ms = now - heard_ms
        if known is not None:
            silent_ms, interval_ms = known[0], known[1] or interval_ms
        session_ms = member.session_timeout_ms
        interval_ms = interval_ms or min(likely.HEARTBEAT_MS, max(session_ms // 3, 1))
        if member.waits or likely.runs(silent_ms, interval_ms):
            self._heard.add(member.member_id)
        return interval_ms if member.member_id in self._heard and interval_ms < session_ms else None

    async def _members_answer(self) -> None:
        """Wait for the requests of awaited members, in real time."""
        until = time.monotonic() + self._timeout_s
        while awaited := set(self._awaited()) - self._given_up:
            if time.monotonic() >= until:
                self._given_up |= awaited
                return
            await asyncio.sleep(LOOK_S)

    def _awaited(self) -> Iterator[_Awaited]:
        """The live members that groups wait for, except those whose JoinGroup is held by a rule."""
        for driver in self._drivers:
            for group in groups_with_members(driver):
                for member_id in _expected(group):
                    member = group.members[member_id]
                    peer = member.peer
                    unheard = group.returning is not None and peer is None
                    is_held = peer is not None and self._bench.faults.holds(peer.link)
                    if not (is_held or member_id in self._silent) and (
                        unheard or self._is_kept(driver, session_timer(group, member))
                    ):
                        yield group.group_id, group.round, str(group.state), member_id


def _put_off_check(step: Step, until: int) -> None:
    interval_ms = step.config.offsets_retention_check_interval_ms
    due = step.deadlines.due[CHECK]
    step.deadlines.set(CHECK, due + -((due - until) // interval_ms) * interval_ms)


def _heartbeats(kept: Iterable[Kept]) -> Callable[[Step], None]:
    def decide(step: Step) -> None:
        for group, member, interval_ms in kept:
            keep_alive(group, member, interval_ms, step)

    return decide


def _expected(group: Group) -> list[str]:
    """Return the ids of members whose requests the group waits for; after a restart, of those that
    have not returned.
    """
    if group.returning is not None:
        return list(group.returning.unheard)
    if group.state is GroupState.COMPLETING_REBALANCE:
        return list(group.pending_sync)
    if group.state is GroupState.PREPARING_REBALANCE:
        return [each.member_id for each in group.members.values() if each.awaiting_join is None]
    return []
