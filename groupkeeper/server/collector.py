"""Keeps each run of Python's cyclic garbage collector to a few milliseconds.

A full collection looks at every container of the process, on whichever thread asked for memory:
half a second with 100,000 groups, in which nobody is served. So young objects are looked at two or
three times, in small lots, and what is left of a large lot is set aside for good: ``gc.freeze``
moves lists and looks at nothing. What is set aside is still freed with its last reference.

What this costs: a cycle that is set aside while it is in use is never freed. So nothing that lives
long may end as a cycle; a test holds the server to that.
"""

import gc
from asyncio import selector_events
from collections.abc import Mapping
from typing import Any

YOUNG = 3_000
"""Objects made, less those freed, that start a collection. The largest looks at four times as many,
at up to 0.4 us each."""
KEPT = 3_000
"""Survivors of a full collection that the next one may look at again."""


def keep_collections_short() -> None:
    """For the rest of the process; to be called once."""
    # Each second collection is of the middle generation, too, and each third is a full one.
    gc.set_threshold(YOUNG, 0, 0)
    gc.callbacks.append(_set_aside)
    _free_transports_when_lost()


def _set_aside(phase: str, info: Mapping[str, int]) -> None:
    is_full = phase == "stop" and info["generation"] == 2
    if is_full and len(gc.get_objects(generation=2)) > KEPT:
        gc.freeze()


def _free_transports_when_lost() -> None:
    """Let asyncio's transports be freed with their last reference: each holds methods of its own,
    ``_write_ready`` from Python 3.12 on, and would outlive its connection as a cycle.
    """
    # Any: asyncio's own class, whose private names are typed nowhere.
    transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    call_connection_lost = transport._call_connection_lost

    def call_and_let_go(self: Any, exc: Exception | None) -> None:
        try:
            call_connection_lost(self, exc)
        finally:
            self._read_ready_cb = self._write_ready = None

    transport._call_connection_lost = call_and_let_go
