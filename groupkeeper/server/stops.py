"""Reports to the partitions that the process stood still, or that the wall clock was moved."""

from functools import partial

from groupkeeper.coordinator.stalls import Stall
from groupkeeper.observe.logs import Logger
from groupkeeper.server.loop import WatchedSelector
from groupkeeper.server.server import Server

_log = Logger("server")


def report_stops(selector: WatchedSelector, server: Server) -> None:
    """Report what the selector notices from now on; the server has started."""
    selector.stopped = partial(note_stop, server)
    selector.clock_moved = partial(note_clock, server)


def note_stop(server: Server, began: float, ended: float) -> None:
    """Note that the event loop did not run between these times, in monotonic seconds."""
    for_ms = round((ended - began) * 1000)
    _log.warning("the process stood still", for_ms=for_ms)
    now = server.clock.now()
    server.group_partitions.stalled(Stall("process", now - for_ms, now))


def note_clock(server: Server, moved: float) -> None:
    """Note that the wall clock was moved by so many seconds, or the machine was suspended."""
    by_ms = round(moved * 1000)
    _log.warning("the wall clock was moved", by_ms=by_ms)
    now = server.clock.now()
    server.group_partitions.stalled(Stall("clock", now, now), by_ms)
