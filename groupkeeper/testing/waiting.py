"""Waiting until a group is as a test wants it: woken by what happens, never by polling.

`Wanted` says what is wanted, and what of it is not so. A `Wait` looks at the group whenever
something has happened to it, also across crashes, restarts and resets of the broker.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, TypedDict

from groupkeeper.coordinator.group import GroupState
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.group_event_words import CODES
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import BrokerDown, WaitTimedOut
from groupkeeper.testing.host import Host
from groupkeeper.testing.running import blocks_a_loop
from groupkeeper.testing.views import DEAD, UNKNOWN, AssignedPartition, GroupNow
from groupkeeper.testing.wire.tap import Answer, Exchange
from groupkeeper.why.texts import count, partitions_text

Partitions: TypeAlias = Mapping[str, Iterable[int]]
"""Numbers of partitions by topic."""
STATES: Final = (*map(str, GroupState), UNKNOWN)


class Conditions(TypedDict, total=False):
    """What a group shall be; all that is given, at one moment."""

    stable: bool
    """True: the group is Stable. Its clients may not have heard of it yet."""
    state: str
    """As DescribeGroups names it: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead."""
    exists: bool
    members: int
    """It has so many."""
    assigned: Partitions | Mapping[str, Partitions]
    """{"orders": [0, 1]}: members have these partitions. {"a": {"orders": [0]}}: the member with
    this instance, client or member id has these partitions and no others."""
    generation: int
    """It has reached this generation."""
    lag: int
    """So many records are left to read; see `GroupView.lag`."""
    committed: Mapping[AssignedPartition, int]
    """{("orders", 0): 5}: these offsets are committed."""
    rounds: int
    """So many rebalances have begun since the broker's start or reset, or more."""
    cause: str
    """Code of what triggered the last rebalance, as `session_expired`."""


NAMES: Final = (*Conditions.__annotations__,)
TOLD: Final = ("state", "rounds", "cause")
"""Those that a group can meet whose coordinator is loading, or has failed."""


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
    """What a group shall be."""

    def __init__(self, conditions: Conditions) -> None:
        """Raises TypeError and ValueError for what can never be."""
        self._conditions = conditions
        for name, given in conditions.items():
            if name not in NAMES:
                raise TypeError(f"wait_until() waits for no {name!r}, but for {', '.join(NAMES)}")
            CHECKS[name](given, f"{name}=")
        if not conditions:
            raise ValueError(f"wait_until() needs something to wait for: {', '.join(NAMES)}")
        _check_word("cause", conditions.get("cause"), CODES)
        _check_word("state", conditions.get("state"), STATES)

    @property
    def wants_lag(self) -> bool:
        """It depends on the ends of logs."""
        return "lag" in self._conditions

    def unmet(self, now: GroupNow) -> list[str]:
        """A line for each condition that is not met, with what is instead; empty if all are. Of a
        group that is not known now, what it has not may be there: nothing but that is met.
        """
        lines = (
            getattr(self, f"_{name}")(wanted, now)
            or ("" if name in TOLD or now.state != UNKNOWN else f"{name}={wanted}: it is {UNKNOWN}")
            for name, wanted in self._conditions.items()
        )
        return [*filter(None, lines)]

    # -- one function for each condition: a line, or "" if it is met ---------------------------

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
            return f"assigned: nothing is while the group is {now.state}"
        lines = []
        for name, some in wanted.items():
            if isinstance(some, Mapping):
                lines.append(_of_member(name, some, now))
            elif missing := sorted({*some} - {*now.assigned.get(name, ())}):
                lines.append(f"{partitions_text({name: missing})} of no member")
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
            f"{topic}-{number}: {offset} wanted, it is {now.committed.get((topic, number))}"
            for (topic, number), offset in wanted.items()
            if now.committed.get((topic, number)) != offset
        ]
        return f"committed: {', '.join(wrong)}" if wrong else ""

    def _rounds(self, wanted: int, now: GroupNow) -> str:
        return "" if now.began >= wanted else f"rounds={wanted}: {now.began} have begun"

    def _cause(self, wanted: str, now: GroupNow) -> str:
        last = now.rounds[-1].cause if now.rounds else None
        told = "there was no round" if last is None else f"that of the last round is {last!r}"
        return "" if last == wanted else f"cause={wanted!r}: {told}"


def _of_member(name: str, wanted: Partitions, now: GroupNow) -> str:
    """What a member does not own as it shall; several may have one client id."""
    shall = {topic: sorted(some) for topic, some in wanted.items() if [*some]}
    found = [each for each in now.members if each.is_called(name)]
    if not found:
        return f"no member is called {name!r}"
    if any(dict(each.partitions) == shall for each in found):
        return ""
    owned = " or ".join(partitions_text(each.partitions) or "nothing" for each in found)
    return f"{name} has {owned}, not {partitions_text(shall) or 'nothing'}"


def _check_word(name: str, given: str | None, words: Iterable[str]) -> None:
    if given is not None and given not in words:
        raise ValueError(f"{name}={given!r} is never so; there are {', '.join(words)}")


class Wait:
    """One test that waits for one group."""

    def __init__(self, bench: Host, group: str, wanted: Wanted) -> None:
        self._bench = bench
        self._sights = bench.sights
        self.group = group
        self.wanted = wanted
        self.done: Future[GroupNow] = Future()
        self._is_due = False
        self._looking: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Look again, on the loop of the present server."""
        self._is_due = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while self._is_due and not self.done.done():
            self._is_due = False
            try:
                now = await self._sights.look(self.group)
                is_met = not self.wanted.unmet(now)
            except BrokerDown:  # it is starting, and will wake this when it has started
                return
            except Exception as error:  # noqa: BLE001  # raised by the test that waits
                self._end(partial(self.done.set_exception, error))
                return
            if is_met:
                self._end(partial(self.done.set_result, now))

    def _end(self, end: Callable[[], None]) -> None:
        with suppress(InvalidStateError):  # the test does not wait any more
            end()

    # -- for the thread that waits -------------------------------------------------------------

    def wait(self, timeout: float | None) -> GroupNow:
        """The group as it was when all was met. Raises WaitTimedOut."""
        __tracebackhide__ = True  # pytest shows the line of the test, not ours
        seconds = arguments.timeout_of(timeout)
        with self._bench.waits.of(self):
            try:
                return self.done.result(seconds)
            except TimeoutError:
                return self._last_look(seconds, blocks_a_loop())

    async def wait_async(
        self,
        timeout: float | None,  # noqa: ASYNC109  # says what is not so
    ) -> GroupNow:
        """The same, for coroutines."""
        __tracebackhide__ = True
        seconds = arguments.timeout_of(timeout)
        with self._bench.waits.of(self):
            try:
                return await asyncio.wait_for(asyncio.wrap_future(self.done), seconds)
            except TimeoutError:
                return await asyncio.to_thread(self._last_look, seconds)

    def _last_look(self, timeout: float, blocked: bool = False) -> GroupNow:
        """The group as it is when the time is over: on a machine that stood still, that may be the
        first look. Raises WaitTimedOut, with what is not so, and what the group is doing instead.
        """
        __tracebackhide__ = True
        head = f"group '{self.group}' was not as wanted within {timeout:g} s"
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
                "It was waited for in a coroutine, whose event loop stood still meanwhile, with "
                f"its clients: await broker.aio.group('{self.group}').wait_until(...) instead."
            )
        if now.rounds:
            lines.append(f"The last of {count(now.began, 'round')}: {now.rounds[-1].text}")
        raise WaitTimedOut("\n  ".join([f"{head}:", *lines])) from None

    async def _told(self) -> tuple[GroupNow, str]:
        sights = self._sights
        return await sights.look(self.group), await sights.doing(self.group)


def _who_is_there(groups: Iterable[str]) -> str:
    named = ", ".join(f"'{each}'" for each in groups)
    return f"No such group exists; there are {named}." if named else "No group exists."


class Waits:
    """All that wait for groups of one broker, over its restarts."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self._waiting: dict[Wait, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @contextmanager
    def of(self, wait: Wait) -> Iterator[None]:
        """Wake it whenever something has happened to its group, and now."""
        self._waiting[wait] = None
        try:
            self._bench.soon(wait.wake)
            yield
        finally:
            self._waiting.pop(wait, None)

    def wake(self, group: str | None) -> None:
        """On the server's loop: something has happened to a group; None: to any."""
        for each in [*self._waiting]:
            if group is None or each.group == group:
                each.wake()

    def wake_for_lag(self) -> None:
        """On the server's loop: the ends of logs have changed."""
        for each in [*self._waiting]:
            if each.wanted.wants_lag:
                each.wake()


class LogEnds:
    """A layer that notices when the ends of logs have changed; within the faults, which may keep
    the answer from the client.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """See `Layer`."""
        if exchange.key in (ApiKey.PRODUCE, ApiKey.DELETE_RECORDS):
            exchange.on_answer(self._answered)
        proceed()

    def _answered(self, answer: Answer) -> Answer:
        self._changed()
        return answer
