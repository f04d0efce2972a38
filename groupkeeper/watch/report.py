"""Tells what an observer could not read or keep: log lines, and the numbers of its metrics."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.watch.ends import LogEnds
from groupkeeper.watch.offsets import OFFSETS_MOST
from groupkeeper.watch.partition import GROUPS_MOST, SIZE_MOST, PartitionWatch
from groupkeeper.watch.rate import Requests
from groupkeeper.watch.store import WatchStore
from groupkeeper.watch.tail import TailStats
from groupkeeper.watch.views import WatchedGroups

STAND_S: Final = 10.0
"""Time after which it is told that the data directory does not answer."""

T = TypeVar("T")
_log = Logger("observer")


async def answered(job: "asyncio.Future[T]") -> T:
    """Wait for a job of the thread that folds and stores, and tell if it does not come to that:
    its disk stands. Meanwhile no response is folded, and so none is fetched.
    """
    done, _ = await asyncio.wait((job,), timeout=STAND_S)
    if not done:
        _log.warning("the data directory does not answer", seconds=STAND_S)
        await asyncio.wait((job,))
        _log.info("the data directory answers again")
    return job.result()


class Report:
    """Compares the counts of folds with those of the last look."""

    def __init__(self, folds: Sequence[PartitionWatch]) -> None:
        self._folds = folds
        self._told = [(0, 0, 0, 0, 0)] * len(folds)
        self._seldom = Seldom()

    def look(self, partition: int) -> None:
        """Write the lines that are due about a partition."""
        fold = self._folds[partition]
        unknown = fold.reader.unknown.total()
        before = self._told[partition]
        now = fold.dropped, fold.unreadable, unknown, fold.gaps, fold.offsets.dropped
        if now == before:
            return
        self._told[partition] = now
        where = {"partition": partition}
        if now[0] > before[0] and (times := self._seldom.due("dropped")):
            most = {"groups": GROUPS_MOST, "members_and_partitions": SIZE_MOST}
            _log.warning("limit reached", limit="observed groups", **where, **most, times=times)
        if now[1] > before[1] and (times := self._seldom.due("unreadable")):
            error = fold.first_error
            _log.warning("records cannot be read", **where, first=error, times=times)
        if now[2] > before[2] and (times := self._seldom.due("unknown")):
            types = sorted(fold.reader.unknown)
            _log.warning("records of unknown types", **where, types=types, times=times)
        if now[3] > before[3] and (times := self._seldom.due("gaps")):
            why = "compaction removed records before they were read"
            _log.warning("history is lost", why=why, **where, times=times)
        if now[4] > before[4] and (times := self._seldom.due("offsets")):
            limit = {"limit": "committed offsets", "most": OFFSETS_MOST}
            _log.warning("limit reached", **limit, **where, times=times)


class AskCounts(NamedTuple):
    """All that the cluster is asked for beside records, with its counts."""

    groups: Requests
    ends: LogEnds
    answers: Requests


def known_since_ms(folds: Sequence[PartitionWatch]) -> int | None:
    """Return the time (Unix ms) since when no record is missing in any partition; None if none is
    missing at all. A partition that has all records from its first one on, which may be of today,
    has no such time.
    """
    some = [each.known_from_ms for each in folds if each.known.from_offset > 0]
    return max((each for each in some if each is not None), default=None)


def numbers(
    folds: Sequence[PartitionWatch],
    groups: WatchedGroups,
    store: WatchStore,
    tail: TailStats,
    asked: AskCounts,
) -> Mapping[str, float]:
    """Return the numbers of `exposition.OBSERVER` and `OBSERVER_COUNTERS` by name, and
    `causes_known_since_ms` if earlier records are missing.
    """
    since_ms = known_since_ms(folds)
    since = {} if since_ms is None else {"causes_known_since_ms": since_ms}
    return since | {
        "observer_records_left": sum(max(0, each.left) for each in groups.partitions),
        "observer_records_read": sum(each.reader.records for each in folds),
        "observer_bytes_read": tail.bytes,
        "observer_fetches": tail.fetches,
        "observer_fetch_failures": tail.failures,
        "observer_losses": tail.losses + sum(each.gaps for each in folds),
        "observer_records_unreadable": sum(each.unreadable for each in folds),
        "observer_groups_dropped": sum(each.dropped for each in folds),
        "observer_events_dropped": store.events_dropped,
        "observer_asks": asked.groups.sent,
        "observer_ask_failures": asked.groups.failures,
        "observer_asks_dropped": asked.groups.dropped,
        "observer_lag_asks": asked.ends.requests.sent,
        "observer_lag_ask_failures": asked.ends.requests.failures,
        "observer_partitions_without_end": asked.ends.beyond,
        "observer_answers_dropped": asked.answers.dropped,
        "observer_offsets_dropped": sum(each.offsets.dropped for each in folds),
    }
