"""One way of a test broker to a later time, through all that is due between.

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
"""How often it looks whether members have answered, in real seconds."""
MEMBERS_IN_A_SLICE: Final = 50
"""Whose heartbeats are made up for, in less than a millisecond."""
CHECK: Final = Timer(TimerKind.OFFSET_EXPIRY)

_Awaited = tuple[str, int, str, str]
"""A member that its group waits for: group id, round, state, member id."""
Kept = tuple[Group, Member, int]
"""A member that is heard of, and the distance of its heartbeats in ms."""


def groups_with_members(driver: PartitionDriver) -> Iterator[Group]:
    """As they are now; none unless the partition is active. A group with members has a timer."""
    for group_id in dict.fromkeys(timer.group_id for timer in driver.timers):
        group = driver.peek(group_id)
        if group is not None and group.members:
            yield group


def members_of(driver: PartitionDriver) -> Iterator[tuple[Group, Member]]:
    """All members of a partition, with their groups, as they are now."""
    for group in groups_with_members(driver):
        for member in group.members.values():
            yield group, member


class Walk:
    """One way to a later time, which stands still meanwhile."""

    def __init__(
        self, bench: Host, server: Server, silent: Collection[str], timeout_s: float
    ) -> None:
        self._bench = bench
        self._time = bench.time
        self._server = server
        self._silent = silent
        self._timeout_s = timeout_s
        self._given_up: set[_Awaited] = set()
        """Members that were waited for long enough."""
        self._heard: set[str] = set()
        """Members that were heard of when they were looked at first. A machine that is busy for
        seconds must not make them silent on the way; whom groups wait for is bounded anyway."""
        self._kept: dict[Timer, Link] = {}
        """The sessions of members that are heard of, with their connections."""
        self._expiries: dict[PartitionDriver, tuple[object, int | None]] = {}
        """What `first_expiry` said, and the mark for which it holds."""
        self._busy_since = time.monotonic()

    async def to(self, target: int) -> None:
        """Go there, by all deadlines on the way."""
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
        """Ids of members that did not answer in time."""
        return sorted({member_id for *_, member_id in self._given_up})

    async def _stop_at(self, at: int) -> None:
        """Move to a time, and do what is due then."""
        self._time.move_to(at, ring=False)  # sessions are restarted before they could end
        try:
            await self._server.turns.run(self._beat())
        finally:
            self._time.moved()
        await self.handled()

    async def handled(self) -> None:
        """Wait until what is due is done, written and answered."""
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
        """The first deadline up to the target that heartbeats do not move, and at which there is
        something to do: of most checks of offsets it is known that they remove nothing.
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
        """When the next check of offsets is, after those before `until` that remove nothing."""
        mark, first = self._expiries.get(driver, (None, None))
        if mark == driver.mark:  # else there is none, or something has changed meanwhile
            if first is not None:
                until = min(until, first - self._time.wall() + self._time.now())
            if driver.timers.get(CHECK, until) < until:
                driver.decide(partial(_put_off_check, until=until))
        return driver.timers.get(CHECK)

    # -- members that are heard of -------------------------------------------------------------

    def _beat(self) -> Slices[None]:
        """Make up for the heartbeats of members that are heard of."""
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
        """Whether it is the session of a member that is heard of."""
        if timer.kind is not TimerKind.SESSION:
            return False
        link = self._kept.get(timer)
        if link is not None and not link.closed:
            return True
        return self._look(driver, timer) is not None

    def _look(self, driver: PartitionDriver, timer: Timer) -> Kept | None:
        """The member whose session that is, if it is heard of."""
        group = None if driver.absence else driver.peek(timer.group_id)
        member = None if group is None else group.members.get(timer.member_id)
        if group is None or member is None:
            return None
        interval_ms = self._interval(member, driver.timers.get(timer))
        return None if interval_ms is None else (group, member, interval_ms)

    def _interval(self, member: Member, due: int | None) -> int | None:
        """The distance of a member's heartbeats in ms; None if it is not heard of any more."""
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
        """Wait for members that have to answer, in real time."""
        until = time.monotonic() + self._timeout_s
        while awaited := set(self._awaited()) - self._given_up:
            if time.monotonic() >= until:
                self._given_up |= awaited
                return
            await asyncio.sleep(LOOK_S)

    def _awaited(self) -> Iterator[_Awaited]:
        """The members that groups wait for, and that are heard of. One whose JoinGroup a rule holds
        cannot answer.
        """
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
