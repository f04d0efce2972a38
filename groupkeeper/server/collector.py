"""Limits each run of Python's cyclic garbage collector to a few milliseconds.

A full collection traverses every container of the process, on the thread that allocated last: half
a second with 100,000 groups, while no request is served. So young objects are collected in small
lots two or three times, and the survivors of a large lot are excluded from then on: `gc.freeze`
moves lists without traversing them. Frozen objects are still freed with their last reference.

The cost: a cycle that is frozen while it is in use is never freed. So no long-lived object may end
as part of a cycle; a test checks the server for that.
"""

import gc
from asyncio import selector_events
from collections.abc import Mapping
from typing import Any

YOUNG = 3_000
"""Objects allocated, less those freed, that start a collection. The largest traverses four times as
many, at up to 0.4 us each."""
KEPT = 3_000
"""Most survivors of a full collection that are not frozen."""
LOOKED_AT = 9_000
"""Most objects that a collection traverses. More are frozen instead: while as many old objects are
freed as young ones are made, as in the rebalance of a large group, no collection starts; the next
one would traverse all that were made meanwhile, 30,000 at a time."""


def keep_collections_short() -> None:
    """Set up the collector for the rest of the process; to be called once."""
    # Each second collection is of the middle generation, too, and each third is a full one.
    gc.set_threshold(YOUNG, 0, 0)
    gc.callbacks.append(_set_aside)
    _free_transports_when_lost()


def _set_aside(phase: str, info: Mapping[str, int]) -> None:
    collected = range(info["generation"] + 1)
    if phase == "start":
        if sum(len(gc.get_objects(generation=each)) for each in collected) > LOOKED_AT:
            gc.freeze()
    elif len(collected) == 3 and len(gc.get_objects(generation=2)) > KEPT:
        gc.freeze()


def _free_transports_when_lost() -> None:
    """Let asyncio's transports be freed with their last reference: each holds bound methods of its
    own (`_write_ready` from Python 3.12 on), and would outlive its connection as a cycle.
    """
    # Any: a private class of asyncio, without types.
    transport: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    call_connection_lost = transport._call_connection_lost

    def call_and_let_go(self: Any, exc: Exception | None) -> None:
        try:
            call_connection_lost(self, exc)
        finally:
            self._read_ready_cb = self._write_ready = None

    transport._call_connection_lost = call_and_let_go
