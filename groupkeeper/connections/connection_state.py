"""The states of a connection, and the transitions between them.

    READING ──► SERVING ──► READING
       │         │  │  └──► QUEUED ───► SERVING       the turn is over, and more is there
       └► QUEUED │  └─────► BLOCKED ──► READING, QUEUED       the client takes its answers again
                 │
                 ├────────► WAITING ──► READING, QUEUED, BLOCKED, WORKING      answered
                 └────────► WORKING ──► SERVING's successors                   done

If the client disconnects, requests that are QUEUED, WAITING or WORKING are still handled. Whether
it is connected is not a state: the stream has a transport, or None.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """The state of one connection; values describe it."""

    READING = "no request is under way, and less than a request is held"
    QUEUED = "requests are held, and wait for a turn or for room"
    SERVING = "requests are being answered in this call"
    WAITING = "a handler has taken a request, and answers later"
    WORKING = "a request is handled in slices, and waits for its next turn"
    BLOCKED = "the client does not read its answers"
    CLOSED = "nothing more is read, held or answered"

    __hash__ = object.__hash__  # Enum's own is too slow for every request


_BETWEEN_REQUESTS = frozenset({State.READING, State.QUEUED, State.BLOCKED, State.CLOSED})

TRANSITIONS: Final = {
    State.READING: frozenset({State.SERVING, State.QUEUED, State.CLOSED}),
    State.QUEUED: frozenset({State.SERVING, State.CLOSED}),
    State.SERVING: _BETWEEN_REQUESTS | {State.WAITING, State.WORKING},
    State.WAITING: _BETWEEN_REQUESTS | {State.WORKING},
    State.WORKING: _BETWEEN_REQUESTS | {State.WAITING},
    State.BLOCKED: frozenset({State.READING, State.QUEUED, State.CLOSED}),
    State.CLOSED: frozenset({State.CLOSED}),
}
"""The states that may follow each state. The hot path, from SERVING to READING or
WAITING, is not checked."""
