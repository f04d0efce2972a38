"""A stop: completes the segments from the journals, and enforces a deadline.

Programs that read the files of a properly stopped server, for analysis or as a broker, read the
segments. Segments of a log lack records if the log was still to be loaded, or has failed after its
last flush. Such a log is opened once more, as a start would do.

A sync that hangs cannot be interrupted, and neither Python nor asyncio ends while a thread waits
for it. So a separate thread watches the clock, and ends the process. Nothing acknowledged is lost
by that: it is equivalent to `kill -9` at the same moment.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.clock import Clock
from groupkeeper.observe import logs
from groupkeeper.observe.logs import Logger
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.store import Store

STOP_S: Final = 8.0
"""From the signal to the end of the process. Containers are killed 10 s after it by default, and a
busy machine needs some time to notice."""
FIRST_LINE_S: Final = 2.0
LINES_EVERY_S: Final = 2.0
"""Delay before the first log line about a stop in progress, and the interval between later ones."""
FLUSH_S: Final = 0.5
"""Time for the last lines at the deadline: standard error may not be read."""

OUT_OF_TIME: Final = 1
"""The exit code of a stop that did not complete."""

MOST_S: Final = 4.0
"""Seconds after which no more logs are opened: a stop that takes long is often followed by a kill,
of a container after 10 s. A log then lacks at most what the journals have."""
NAMED: Final = 5
"""Maximum number of logs in the last line of the process."""

# Any: the result of a job is for the caller only.
_Call = Callable[..., Awaitable[Any]]

_log = Logger("server")


@dataclass(slots=True)
class StopStage:
    """The current step of a stop: set on the event loop, read by another thread."""

    name: str = "requests in progress"


class StopWatch:
    """Times the progress lines and the end of a stop. Times are seconds of one clock."""

    def __init__(self, stage: StopStage, began: float) -> None:
        self._stage = stage
        self._began = began
        self._next_line = began + FIRST_LINE_S
        self.over = threading.Event()
        """Set if the process may continue without a deadline."""
        self.exit_code = OUT_OF_TIME
        """Exit code at the deadline: that of the stop, if it has completed."""

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
                seconds=round(now - self._began, 1),
                at_most=STOP_S,
            )
        return min(self._next_line, end) - now

    def last_words(self) -> str:
        """Return why the process ends at the deadline; empty if everything is in place."""
        if self.exit_code != OUT_OF_TIME:
            return ""
        return (
            f"groupkeeper: the stop did not end within {STOP_S:g} s: it waited for "
            f"{self._stage.name}. Nothing acknowledged is lost: the journal has it. The "
            "segments may lack records until the next start writes them"
        )


def keep_deadline(stage: StopStage, end: Callable[[int], None] = os._exit) -> StopWatch:
    """Call `end` with the exit code when the time for a stop that begins now is over.

    On a separate thread, which ends with the process.
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
    """Bring all logs up to the journals, on the thread of flushes, when no flush will follow.

    `call` runs a job there. Returns a message about logs that lack records, and the reason; empty
    if there are none.
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
