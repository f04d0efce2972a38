"""Waits until a group meets the conditions of a test.

`Wanted` holds the conditions and reports unmet ones. `Wait` checks a group after each change to it,
also across crashes, restarts and resets of the broker; lag also depends on records, and is checked
every `LAG_S`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, TypedDict

from groupkeeper.coordinator.group import GroupState
from groupkeeper.protocol.group_event_words import CODES
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import BrokerDown, WaitTimedOut
from groupkeeper.testing.host import Host
from groupkeeper.testing.running import blocks_a_loop
from groupkeeper.testing.views import DEAD, UNKNOWN, AssignedPartition, GroupNow
from groupkeeper.why.texts import count, partitions_text

Partitions: TypeAlias = Mapping[str, Iterable[int]]
"""Partition numbers by topic."""
LAG_S: Final = 0.02
"""Interval of checks of a wait for lag."""
STATES: Final = (*map(str, GroupState), UNKNOWN)


class Conditions(TypedDict, total=False):
    """The conditions of `wait_until`. All given ones must hold at the same moment."""

    stable: bool
    """Whether the group is Stable. Its clients may not have received their assignments yet."""
    state: str
    """State as in DescribeGroups: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead."""
    exists: bool
    members: int
    """Exact number of members."""
    assigned: Partitions | Mapping[str, Partitions]
    """{"orders": [0, 1]}: these partitions are assigned, to any members. {"a": {"orders": [0]}}:
    the member with this instance, client or member id has exactly these partitions."""
    generation: int
    """Minimum generation."""
    lag: int
    """Exact total lag in records; see `GroupView.lag`."""
    committed: Mapping[AssignedPartition, int]
    """Exact committed offsets, such as {("orders", 0): 5}; other partitions are ignored."""
    rounds: int
    """Minimum number of rebalances started since the broker's start or reset."""
    cause: str
    """Code of the last rebalance's cause, such as `session_expired`; see docs/events.md."""


NAMES: Final = (*Conditions.__annotations__,)
TOLD: Final = ("state", "rounds", "cause")
"""Conditions that can be met while the group's coordinator is loading or has failed."""


def _count(value: object, what: str) -> None:
    arguments.whole(value, what, 0)


CHECKS: Final[Mapping[str, Callable[[object, str], object]]] = {
    "stable": arguments.flag,
    "state": arguments.text,
    "exists": arguments.flag,
    "members": _count,
    "assigned": arguments.partitions,
    "generation": _count,
    "lag": _count,
    "committed": arguments.offsets,
    "rounds": _count,
    "cause": arguments.text,
}


class Wanted:
    """The checked conditions of one wait."""

    def __init__(self, conditions: Conditions) -> None:
        """Raises TypeError and ValueError for conditions that can never be met."""
        self._conditions = conditions
        for name, given in conditions.items():
            if name not in NAMES:
                raise TypeError(f"wait_until() has no condition {name!r}, only {', '.join(NAMES)}")
            CHECKS[name](given, f"{name}=")
        if not conditions:
            raise ValueError(f"wait_until() needs a condition: {', '.join(NAMES)}")
        _check_word("cause", conditions.get("cause"), CODES)
        _check_word("state", conditions.get("state"), STATES)

    @property
    def wants_lag(self) -> bool:
        """Whether the conditions depend on log end offsets."""
        return "lag" in self._conditions

    def unmet(self, now: GroupNow) -> list[str]:
        """Return a line for each unmet condition, with the actual value; empty if all are met.
        While the group is Unknown, only the conditions in `TOLD` can be met.
        """
        lines = (
            getattr(self, f"_{name}")(wanted, now)
            or ("" if name in TOLD or now.state != UNKNOWN else f"{name}={wanted}: it is {UNKNOWN}")
            for name, wanted in self._conditions.items()
        )
        return [*filter(None, lines)]

    # -- one method for each condition; returns a line, or "" if it is met ---------------------

    def _stable(self, wanted: bool, now: GroupNow) -> str:
        return "" if now.is_stable == wanted else f"stable={wanted}: it is {now.state}"

    def _state(self, wanted: str, now: GroupNow) -> str:
        return "" if now.state == wanted else f"state={wanted!r}: it is {now.state}"

    def _exists(self, wanted: bool, now: GroupNow) -> str:
        return "" if now.exists == wanted else f"exists={wanted}: it is {now.state}"

    def _members(self, wanted: int, now: GroupNow) -> str:
        found = len(now.members)
        names = f": {', '.join(each.name for each in now.members)}" if found else ""
        return "" if found == wanted else f"members={wanted}: it has {found}{names}"

    def _assigned(self, wanted: "Partitions | Mapping[str, Partitions]", now: GroupNow) -> str:
        if not now.is_stable:
            return f"assigned: nothing is assigned while the group is {now.state}"
        lines = []
        for name, some in wanted.items():
            if isinstance(some, Mapping):
                lines.append(_of_member(name, some, now))
            elif missing := sorted({*some} - {*now.assigned.get(name, ())}):
                lines.append(f"{partitions_text({name: missing})} is assigned to no member")
        told = "; ".join(filter(None, lines))
        return told and f"assigned: {told}"

    def _generation(self, wanted: int, now: GroupNow) -> str:
        found = now.generation if now.exists else "none"
        is_met = now.exists and now.generation >= wanted
        return "" if is_met else f"generation={wanted}: it is {found}"

    def _lag(self, wanted: int, now: GroupNow) -> str:
        if now.lag == wanted:
            return ""
        parts = [f"{topic}-{each}: {lag}" for (topic, each), lag in now.lags.items() if lag]
        told = "; nothing is assigned or committed" if now.lag is None else ""
        return f"lag={wanted}: it is {now.lag}{told}{' in ' if parts else ''}{', '.join(parts)}"

    def _committed(self, wanted: Mapping[AssignedPartition, int], now: GroupNow) -> str:
        wrong = [
            f"{topic}-{number}={offset}: it is {now.committed.get((topic, number))}"
            for (topic, number), offset in wanted.items()
            if now.committed.get((topic, number)) != offset
        ]
        return f"committed: {', '.join(wrong)}" if wrong else ""

    def _rounds(self, wanted: int, now: GroupNow) -> str:
        return "" if now.began >= wanted else f"rounds={wanted}: {now.began} have started"

    def _cause(self, wanted: str, now: GroupNow) -> str:
        last = now.rounds[-1].cause if now.rounds else None
        told = "there was no round" if last is None else f"the last round's is {last!r}"
        return "" if last == wanted else f"cause={wanted!r}: {told}"


def _of_member(name: str, wanted: Partitions, now: GroupNow) -> str:
    """Return the difference for the member of this name, or ""; several may share a client id."""
    shall = {topic: sorted(some) for topic, some in wanted.items() if [*some]}
    found = [each for each in now.members if each.is_called(name)]
    if not found:
        return f"there is no member {name!r}"
    if any(dict(each.partitions) == shall for each in found):
        return ""
    owned = " or ".join(partitions_text(each.partitions) or "nothing" for each in found)
    return f"{name} has {owned}, not {partitions_text(shall) or 'nothing'}"


def _check_word(name: str, given: str | None, words: Iterable[str]) -> None:
    if given is not None and given not in words:
        raise ValueError(f"{name}={given!r} does not exist; known are {', '.join(words)}")


class Wait:
    """One call of `wait_until` for one group."""

    def __init__(self, bench: Host, group: str, wanted: Wanted) -> None:
        self._bench = bench
        self._sights = bench.sights
        self.group = group
        self.wanted = wanted
        self.done: Future[GroupNow] = Future()
        self._is_due = False
        self._looking: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Check the group again. On the loop of the running server."""
        self._is_due = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while self._is_due and not self.done.done():
            self._is_due = self.wanted.wants_lag
            try:
                now = await self._sights.look(self.group)
                is_met = not self.wanted.unmet(now)
            except BrokerDown:  # the broker is starting, and calls `wake` afterwards
                return
            except Exception as error:  # noqa: BLE001  # raised again in the waiting test
                self._end(partial(self.done.set_exception, error))
                return
            if is_met:
                self._end(partial(self.done.set_result, now))
            elif self.wanted.wants_lag:
                await asyncio.sleep(LAG_S)

    def _end(self, end: Callable[[], None]) -> None:
        with suppress(InvalidStateError):  # the test has stopped waiting
            end()

    # -- for the waiting thread ----------------------------------------------------------------

    def wait(self, timeout: float | None) -> GroupNow:
        """Block until the conditions are met; return that snapshot. Raises WaitTimedOut."""
        __tracebackhide__ = True  # pytest then shows the line of the test
        seconds = arguments.timeout_of(timeout)
        with self._bench.waits.of(self):
            try:
                return self.done.result(seconds)
            except TimeoutError:
                return self._last_look(seconds, blocks_a_loop())

    async def wait_async(
        self,
        timeout: float | None,  # noqa: ASYNC109  # the error lists unmet conditions
    ) -> GroupNow:
        """Like `wait`, for coroutines."""
        __tracebackhide__ = True
        seconds = arguments.timeout_of(timeout)
        with self._bench.waits.of(self):
            try:
                return await asyncio.wait_for(asyncio.wrap_future(self.done), seconds)
            except TimeoutError:
                return await asyncio.to_thread(self._last_look, seconds)

    def _last_look(self, timeout: float, blocked: bool = False) -> GroupNow:
        """Check once more after the timeout, which may be the first check on an overloaded machine.
        Raises WaitTimedOut with the unmet conditions and the group's present state.
        """
        __tracebackhide__ = True
        head = f"group '{self.group}' did not meet the conditions within {timeout:g} s"
        try:
            now, live = self._bench.run(self._told)
        except BrokerDown as down:
            raise WaitTimedOut(f"{head}: {down}") from None
        lines = self.wanted.unmet(now)
        if not lines:
            return now
        if live:
            lines.append(live)
        elif now.state == UNKNOWN:
            lines.append("The broker is loading the group, or its log has failed.")
        elif now.state == DEAD:
            lines.append(_who_is_there(self._sights.group_ids()))
        if blocked:
            lines.append(
                "wait_until() was called in a coroutine and blocked its event loop, with the "
                f"clients on it: await broker.aio.group('{self.group}').wait_until(...) instead."
            )
        if now.rounds:
            lines.append(f"The last of {count(now.began, 'round')}: {now.rounds[-1].text}")
        raise WaitTimedOut("\n  ".join([f"{head}:", *lines])) from None

    async def _told(self) -> tuple[GroupNow, str]:
        sights = self._sights
        return await sights.look(self.group), await sights.doing(self.group)


def _who_is_there(groups: Iterable[str]) -> str:
    named = ", ".join(f"'{each}'" for each in groups)
    return f"The group does not exist, only {named}." if named else "No group exists."


class Waits:
    """All pending waits of one broker, across its restarts."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self._waiting: dict[Wait, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @contextmanager
    def of(self, wait: Wait) -> Iterator[None]:
        """Wake a wait now, and after each change to its group, for the length of the block."""
        self._waiting[wait] = None
        try:
            self._bench.soon(wait.wake)
            yield
        finally:
            self._waiting.pop(wait, None)
            wait.done.cancel()

    def wake(self, group: str | None) -> None:
        """Wake the waits for a group, or for all groups if None. On the server's loop."""
        for each in [*self._waiting]:
            if group is None or each.group == group:
                each.wake()
