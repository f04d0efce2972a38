"""Stops, resumes and moves forward the clock of a test broker. See `walk` for how it moves."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from math import isfinite
from typing import Final
from warnings import warn

from groupkeeper.coordinator.member import Member
from groupkeeper.server.server import Server
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import BrokerDown, RequestFailed
from groupkeeper.testing.host import Host
from groupkeeper.testing.running import blocks_a_loop
from groupkeeper.testing.time.walk import Walk, members_of
from groupkeeper.turns import when_read

TIMEOUT_S: Final = 5.0
"""Default of the real seconds that `advance` waits each time a group needs requests of members:
longer than the clients' default heartbeat interval of 3 s, after which they rejoin."""
MOST_S: Final = 366 * 24 * 3600
"""Maximum for one `advance`: a year. The clock stops at each check for expired offsets, every ten
minutes by default."""
READ_S: Final = 1.0
"""Maximum real time for reading what clients have already sent."""
NAMED: Final = 20
"""Maximum number of members named in an error."""
BLOCKED: Final = (
    "time moved on before awaited requests of members arrived ({}): advance() was called in a "
    "coroutine and blocked its event loop, with the clients on it: await broker.aio.advance(...) "
    "instead"
)


def milliseconds(seconds: float) -> int:
    """Convert the argument of `advance`. Raises TypeError and ValueError."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"advance() takes a number of seconds, not {seconds!r}")
    if not isfinite(seconds) or not 0 <= seconds <= MOST_S:
        raise ValueError(f"advance() takes 0 to {MOST_S} seconds (a year), not {seconds!r}")
    return round(seconds * 1000)


class TimeControl:
    """Controls the clock of a broker. Thread-safe."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self._time = bench.time

    def created(self, server: Server) -> None:
        """Take a new server of the broker."""
        self._server = server
        self._one_at_a_time = asyncio.Lock()

    def advance(
        self, seconds: float, silent: Collection[str], everyone: bool, timeout_s: float
    ) -> None:
        """See `Broker.advance`."""
        ms = milliseconds(seconds)
        names = arguments.names(silent, "silent=")
        timeout_s = arguments.timeout_of(timeout_s)
        if self._bench.is_up:
            running = self._bench.running
            late = self._bench.run(lambda: self._advance(ms, names, everyone, timeout_s))
            if self._bench.running is not running:  # the server ended during the call
                raise BrokerDown("the broker ended while its time was moved")
            if late and blocks_a_loop():
                warn(BLOCKED.format(", ".join(late[:NAMED])), RuntimeWarning, stacklevel=3)
        elif names or everyone:
            raise BrokerDown("silent= and all= concern members, but the broker is not running")
        else:
            self._time.move_to(self._time.now() + ms)

    def freeze(self) -> None:
        """See `Broker.freeze`."""
        self._change(self._time.freeze)

    def resume(self) -> None:
        """See `Broker.resume`."""
        self._change(self._time.resume)

    def _change(self, change: Callable[[], None]) -> None:
        if self._bench.is_up:
            self._bench.run(lambda: self._change_here(change))
        else:
            change()

    # -- on the thread of the server's loop ----------------------------------------------------

    async def _change_here(self, change: Callable[[], None]) -> None:
        """Apply `freeze` or `resume` when no `advance` is in progress."""
        async with self._one_at_a_time:
            change()

    async def _advance(
        self, ms: int, silent: Collection[str], everyone: bool, timeout_s: float
    ) -> list[str]:
        """Move forward by `ms`. `silent`: member, instance or client ids of silent members;
        `everyone`: all are silent. `timeout_s`: see `TIMEOUT_S`. Returns the ids of members whose
        requests did not arrive in that time. Raises RequestFailed.
        """
        async with self._one_at_a_time:
            await self._read()
            members = _silent(self._members(), silent, everyone)
            ran = not self._time.is_frozen
            self._time.freeze()
            try:
                with self._bench.presence.silence(members):
                    walk = Walk(self._bench, self._server, members, timeout_s)
                    await walk.to(self._time.now() + ms)
            finally:
                if ran:
                    self._time.resume()
        return walk.late

    async def _read(self) -> None:
        """Handle requests that have already arrived, and detect closed connections."""
        read = asyncio.Event()
        when_read(self._server.turns, read.set, READ_S)
        await read.wait()

    def _members(self) -> Iterator[Member]:
        for driver in self._server.group_partitions:
            for _, member in members_of(driver):
                yield member


def names_of(member: Member) -> list[str]:
    """Return the names of a member for tests: its member, instance and client ids."""
    who = member.who
    return [member.member_id, *filter(None, (member.instance_id, who.client_id, member.client_id))]


def _silent(members: Iterator[Member], names: Collection[str], everyone: bool) -> frozenset[str]:
    """Return the member ids of silent members. Raises RequestFailed for an unknown name."""
    if not names:
        return frozenset(each.member_id for each in members if everyone)
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
        raise RequestFailed(f"silent= names {', '.join(missing)}, not a member: {there}")
    return frozenset(found)
