"""`/status`: the state of a server for a first look, as one JSON object.

It has readiness, loop, disk, appends, compaction, events and connections. `groupkeeper status`
prints it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from groupkeeper import __version__
from groupkeeper.observe.metrics import Histogram, Metrics, PartitionSnapshot

SLOW_S: Final = 0.02
"""Intended maximum of an iteration of the event loop; one of the histogram's bounds."""
NAMED: Final = 20
"""Maximum number of inactive partitions to list."""
OBSERVED: Final = (
    *("records_left", "records_read", "records_unreadable"),
    *("fetch_failures", "losses", "groups_dropped"),
)
"""Numbers of an observer that the page has."""
LIMITS: Final = "limits_reached"
"""The counter with limits as labels."""


# Any: JSON.
def status_of(metrics: Metrics, about: dict[str, Any], disk: dict[str, int]) -> dict[str, Any]:
    """Return the page. `about` comes first in it; `disk` has bytes by name, -1 where unknown."""
    snapshots = [*metrics.snapshots()]
    observer = {} if metrics.observer is None else metrics.observer()
    waiting = not_active(snapshots)
    return {
        **about,
        "version": __version__,
        "ready": is_ready(snapshots),
        "partitions": dict(Counter(each.state for each in snapshots)),
        "not_active": waiting[:NAMED],
        "disk": disk,
        "loop": _loop(metrics.iterations),
        "appends": {
            "flushes": metrics.appends.seconds.count(),
            "p99_ms": quantile_ms(metrics.appends.seconds, 0.99),
            "failures": metrics.appends.failures,
        },
        "compaction": {
            "runs": metrics.cleaner.runs,
            "failures": metrics.cleaner.failures,
            "hung": metrics.cleaner.hung,
            "running_s": round(metrics.cleaner.running_s, 1),
            "uncleanable_logs": metrics.cleaner.uncleanable,
        },
        "events": {
            "written": _total(metrics, "events_written"),
            "dropped": _total(metrics, "events_dropped")
            + int(observer.get("observer_events_dropped", 0)),
            "logs_closed": _total(metrics, "event_logs_closed"),
            "wait_for_room": metrics.events_wait_for_room,
        },
        "connections": {
            "open": metrics.connections.open,
            "accepted": metrics.connections.accepted,
            "refused": metrics.connections.refused,
            "stuck": metrics.connections.stuck,
            "unaccepted": metrics.connections.unaccepted,
        },
        "limits_reached": {
            key[1]: count for key, count in metrics.counts.items() if key[0] == LIMITS and count
        },
    } | ({"observer": _observer(observer)} if observer else {})


def _observer(numbers: Mapping[str, float]) -> dict[str, int | None]:
    """Return what an observer has read. `numbers`: see `Metrics.observer`."""
    since_ms = numbers.get("causes_known_since_ms")
    about = {"causes_known_since_ms": None if since_ms is None else int(since_ms)}
    return about | {each: int(numbers[f"observer_{each}"]) for each in OBSERVED}


def is_ready(snapshots: Sequence[PartitionSnapshot]) -> bool:
    """Return whether there are partitions, and all are active."""
    return bool(snapshots) and not not_active(snapshots)


def not_active(snapshots: Iterable[PartitionSnapshot]) -> list[dict[str, Any]]:
    """Return the partitions that are not served now, with the reason."""
    return [
        {"partition": each.partition, "state": each.state, "reason": each.reason}
        for each in snapshots
        if each.state != "active"
    ]


def _loop(iterations: Histogram) -> dict[str, Any]:
    slow = iterations.bounds.index(SLOW_S) + 1
    return {
        "iterations": iterations.count(),
        "over_20_ms": sum(iterations.counts[slow:]),
        "longest_ms": quantile_ms(iterations, 1.0),
    }


def quantile_ms(times: Histogram, share: float) -> float | None:
    """Return the bucket bound below which this share of the times lies, in milliseconds. None
    without any times, or if it is over the last bound.
    """
    wanted, seen = share * times.count(), 0
    for bound, count in zip(times.bounds, times.counts, strict=False):
        seen += count
        if seen and seen >= wanted:
            return bound * 1000
    return None


def _total(metrics: Metrics, name: str) -> int:
    return sum(count for key, count in metrics.counts.items() if key[0] == name)
