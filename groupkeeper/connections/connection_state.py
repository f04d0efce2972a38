"""What a connection is doing, and what may come next.

    READING ──► SERVING ──► READING
       │         │  │  └──► QUEUED ───► SERVING       the turn is over, and more is there
       └► QUEUED │  └─────► BLOCKED ──► READING, QUEUED       the client takes its answers again
                 │
                 ├────────► WAITING ──► READING, QUEUED, BLOCKED, WORKING      answered
                 └────────► WORKING ──► SERVING's successors                   done

A client that hangs up does not end what is QUEUED, WAITING or WORKING: what it sent before counts.
Whether it is there is not a state, but whether there is a transport.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """Of one connection."""

    READING = "nothing is under way, and what is held is less than a request"
    QUEUED = "requests are held, and wait for their turn or for room"
    SERVING = "requests are answered, in this very call"
    WAITING = "a request is with its handler, who answers later"
    WORKING = "a request is worked on in slices, and waits for its next turn"
    BLOCKED = "the client does not take its answers"
    CLOSED = "nothing more is read, kept or answered"

    __hash__ = object.__hash__  # Enum's own is not made for the path of every request


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
"""The table. The hot path, SERVING to READING or WAITING, does not look it up."""
