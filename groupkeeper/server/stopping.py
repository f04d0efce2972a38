"""A stop: the segments get what only the journals have, and a deadline is told and kept.

Who reads the files of a server that has stopped in order, for analysis or as a broker, reads the
segments. Those of a log lack records if the log was still to be loaded, or has failed behind its
last round. Such a log is opened once more, as a start would do it.

A sync that hangs cannot be interrupted, and neither Python nor asyncio end while a thread waits for
one. So a thread of its own looks at the clock, and ends the process. Nothing acknowledged is lost
by that: it is what `kill -9` does at the same moment.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from groupkeeper.clock import Clock
from groupkeeper.observe import logs
from groupkeeper.observe.logs import Logger
from groupkeeper.server.sync_threads import SyncThreads
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.at_once import AtOnce
from groupkeeper.storage.store import Store

STOP_S: Final = 8.0
"""From the signal to the end of the process. Containers are killed 10 s after it by default, and a
busy machine needs some time to take notice."""
FIRST_LINE_S: Final = 2.0
LINES_EVERY_S: Final = 2.0
"""When a stop that goes on is told for the first time, and how often from then on."""
FLUSH_S: Final = 0.5
"""How long the last lines may take at the deadline: standard error may not be read."""

OUT_OF_TIME: Final = 1
"""The exit code of a stop that did not come to its end."""

MOST_S: Final = 4.0
"""After so many seconds no more logs are opened: who stops a server kills it if that takes long, a
container after 10 s. What a log lacks is at most what the journals hold."""
NAMED: Final = 5
"""How many logs the last line of the process names."""

# Any: what a job returns is used by the caller only.
_Call = Callable[..., Awaitable[Any]]

_log = Logger("server")


class StopStage:
    """What a stop is doing at the moment: set on the event loop, looked at by another thread."""

    def __init__(self, at_once: AtOnce) -> None:
        """`at_once` closes the logs."""
        self.name = "requests under way"
        self._threads = at_once if isinstance(at_once, SyncThreads) else None

    @property
    def logs_left(self) -> int:
        """Logs that are still to be written and closed."""
        return 0 if self._threads is None else self._threads.left


class StopWatch:
    """When to tell that a stop goes on, and when to give up. Times are seconds of one clock."""

    def __init__(self, stage: StopStage, began: float) -> None:
        self._stage = stage
        self._began = began
        self._next_line = began + FIRST_LINE_S
        self.over = threading.Event()
        """Set: the process goes on for as long as it wants."""
        self.exit_code = OUT_OF_TIME
        """That of the process at the deadline: of a stop that came to its end, its own."""

    def look(self, now: float) -> float:
        """Write the line that is due. Returns seconds until the next look; 0 at the deadline."""
        end = self._began + STOP_S
        if now >= end:
            return 0.0
        if now >= self._next_line:
            self._next_line = now + LINES_EVERY_S
            _log.warning(
                "still stopping",
                waiting_for=self._stage.name,
                logs_left=self._stage.logs_left,
                seconds=round(now - self._began, 1),
                at_most=STOP_S,
            )
        return min(self._next_line, end) - now

    def last_words(self) -> str:
        """Why the process ends at the deadline; empty if all that is to be kept is in place."""
        if self.exit_code != OUT_OF_TIME:
            return ""
        left = f", with {self._stage.logs_left} logs left" if self._stage.logs_left else ""
        return (
            f"groupkeeper: the stop had no end after {STOP_S:g} s: it waited for "
            f"{self._stage.name}{left}. Nothing acknowledged is lost: the journal has it. The "
            "segments may lack records until the next start writes them"
        )


def keep_deadline(stage: StopStage, end: Callable[[int], None] = os._exit) -> StopWatch:
    """Call `end` with the exit code when the time of a stop that begins now is over.

    On a thread of its own, which ends with the process.
    """
    watch = StopWatch(stage, time.monotonic())
    threading.Thread(target=_wait, args=(watch, end), name="stop", daemon=True).start()
    return watch


def _wait(watch: StopWatch, end: Callable[[int], None]) -> None:
    while pause := watch.look(time.monotonic()):
        if watch.over.wait(pause):
            return
    if words := watch.last_words():
        logs.write_text(words)
    logs.flush(FLUSH_S)
    end(watch.exit_code)


async def complete_segments(store: Store, call: _Call, clock: Clock) -> str:
    """Bring all logs up to the journals, on the thread of rounds, when no round will follow.

    `call` runs a job there. Returns which logs lack records, and why, in a line for people; empty
    if none does.
    """
    until = clock.seconds() + MOST_S
    why: dict[str, str] = {}
    try:
        await call(store.catch_up)
    except (StorageError, OSError) as error:
        return f"segments may lack records that the journal has: {error}"
    for name in await call(store.behind):
        if clock.seconds() >= until:
            why[name] = "no time was left"
            continue
        try:
            log = await call(store.open_log, name)
        except (StorageError, OSError) as error:
            why[name] = str(error)
        else:
            for what in log.take_repairs():
                _log.warning("log repaired", log=name, what=what)
    for name, reason in why.items():
        _log.error("segments may lack records", log=name, kept_in="journal", error=reason)
    return _told(why)


def _told(why: dict[str, str]) -> str:
    if not why:
        return ""
    names = ", ".join([*why][:NAMED]) + (", ..." if len(why) > NAMED else "")
    [reason, *_] = why.values()
    return (
        f"the segments of {len(why)} logs ({names}) may lack records: the journal has them, and "
        f"the next start writes them: {reason}"
    )
