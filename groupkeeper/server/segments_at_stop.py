"""The end of a stop: the segments get what only the journals have.

Who reads the files of a server that has stopped in order, for analysis or as a broker, reads the
segments. Those of a log lack records if the log was still to be loaded, or has failed behind its
last round. Such a log is opened once more, as a start would do it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from groupkeeper.clock import Clock
from groupkeeper.observe.logs import Logger
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.store import Store

MOST_S: Final = 4.0
"""After so many seconds no more logs are opened: who stops a server kills it if that takes long, a
container after 10 s. What a log lacks is at most what the journals hold."""
NAMED: Final = 5
"""How many logs the last line of the process names."""

# Any: what a job returns is used by the caller only.
Call = Callable[..., Awaitable[Any]]

_log = Logger("server")


async def complete_segments(store: Store, call: Call, clock: Clock) -> str:
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
