"""Limits each run of Python's cyclic garbage collector to a few milliseconds.

A full collection traverses every container of the process, on the thread that allocated last: half
a second with 100,000 groups, while no request is served. So young objects are collected in small
lots twice, and once more between two iterations of the loop. The survivors of a large lot are
excluded from then on: `gc.freeze` moves lists without traversing them. Frozen objects are still
freed with their last reference. Only short collections run in callbacks of the event loop.

The cost: a cycle that is frozen while it is in use is never freed. So no long-lived object may end
as part of a cycle; a test checks the server for that.
"""

import gc
from asyncio import selector_events
from collections.abc import Mapping
from time import thread_time
from typing import Any

YOUNG = 1_500
"""Objects allocated, less those freed, that start a collection, of two generations each second
time. It traverses twice as many, at up to 0.4 us each, in whatever callback allocates."""
NEVER = 1_000_000
"""Collections of the young generations before Python itself collects the oldest."""
FULL_AFTER = 3
"""Collections of the two young generations before `collect_old` collects all."""
KEPT = 3_000
"""Maximum survivors of a full collection that are not frozen."""
LONG_S = 0.0007
LONG_EACH_S = 0.0000008
"""Survivors of a collection that took longer, in total and per object, are frozen, too: it has
traversed lists of very many items, and would do so each time. Seconds of processor time."""
LOOKED_AT = 4_500, 4_500, 12_000
"""Maximum objects that a collection traverses, by its generation. Larger numbers are frozen
instead. While as many old objects are freed as young ones are made, as in the rebalance of a large
group, no collection starts; the next one would traverse all that were made meanwhile, 30,000 at a
time."""


def keep_collections_short() -> None:
    """Set up the collector, once per process. `collect_old` must then be called often."""
    gc.set_threshold(YOUNG, 0, NEVER)
    gc.callbacks.append(_SetAside())
    _free_transports_when_lost()


def collect_old() -> None:
    """Collect all generations, if much has reached the oldest. Between two iterations of the event
    loop, as a callback would take that much longer.
    """
    if gc.get_count()[2] >= FULL_AFTER:
        gc.collect()


class _SetAside:
    """Called before and after each collection."""

    def __init__(self) -> None:
        self._began = 0.0
        self._long_s = 0.0
        self._looked_at = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        generation = info["generation"]
        if phase == "start":
            looked_at = sum(len(gc.get_objects(generation=each)) for each in range(generation + 1))
            if looked_at > LOOKED_AT[generation]:
                gc.freeze()
            self._long_s = max(LONG_S, LONG_EACH_S * looked_at)
            self._looked_at = looked_at
            self._began = thread_time()
        else:
            is_large = generation == 2 and self._looked_at - info["collected"] > KEPT
            if is_large or thread_time() - self._began > self._long_s:
                gc.freeze()


def _free_transports_when_lost() -> None:
    """Let asyncio's transports be freed with their last reference. Each holds its own bound methods
    (`_write_ready` from Python 3.12 on), and would outlive its connection as a cycle.
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
