"""Reads what `groupkeeper why` infers from `__consumer_offsets`, if a cluster stores no causes."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from groupkeeper.cli.progress import progress
from groupkeeper.cli.why.read import ReadEntries
from groupkeeper.cli.why.show import remark
from groupkeeper.history.epochs import CONSUMER
from groupkeeper.history.rounds import Folding, HistoryEntry, Round, SessionLimits
from groupkeeper.why.inferred import NO_RECORD, is_first
from groupkeeper.why.live import waiting_text
from groupkeeper.why.texts import count, time_text

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.watch.group_log import GroupLog

SPANS_MS: Final = (3_600_000, 86_400_000, None)
"""How far back to read without `--since`: the first, or further until there is enough. None is the
whole log."""


class Inferred(NamedTuple):
    """The entries from a time on, in Unix ms; None for the whole log."""

    log: "GroupLog"
    told: ReadEntries
    since_ms: int | None


class Wanted(NamedTuple):
    """The part of the log to read: from a time on (Unix ms), or from an hour ago; further back
    for so many rounds, and until there is a record of the group.
    """

    since_ms: int | None = None
    rounds: int = 0
    to_record: bool = False


async def read_inferred(
    client: "Client", group: str, wanted: Wanted, limits: SessionLimits
) -> Inferred | str:
    """Read the entries of a group. A clause that says why, if its records cannot be read."""
    from groupkeeper.watch.group_log import GroupLog, NoOffsetsLog

    now = int(time.time() * 1000)
    times = [None if span is None else now - span for span in SPANS_MS]
    if wanted.since_ms is not None:
        times = [wanted.since_ms]
    try:
        log = await GroupLog.of(client, group)
        told, since_ms = ReadEntries(), wanted.since_ms
        for at_ms in times:
            told, since_ms = await _entries(log, at_ms, limits), at_ms
            if log.kind is not None and at_ms is not None:
                # Each record states one member: what stands was written at any time before.
                told, since_ms = await _entries(log, None, limits), wanted.since_ms
                told.forget_before(since_ms)
                break
            rounds = sum(isinstance(each, Round) for each in told.entries)
            if rounds >= wanted.rounds and (log.has_record or not wanted.to_record):
                break
    except NoOffsetsLog as problem:
        return str(problem)
    return Inferred(log, told, since_ms)


async def _entries(log: "GroupLog", at_ms: int | None, limits: SessionLimits) -> ReadEntries:
    """Return the entries from a time on; None for the whole log."""
    start = log.start if at_ms is None else await log.since(at_ms)
    told = ReadEntries(folding=Folding(limits))
    with progress() as shown:
        async for events in log.read(start, log.end, lambda size: shown(log.name, size)):
            told.take(events)
    return told


def remark_on(found: Inferred, group: str, entries: Sequence[HistoryEntry]) -> None:
    """Say what cannot be known of the entries that are shown."""
    log = found.log
    if log.kind not in (None, CONSUMER):
        remark(
            f"group '{group}' is a {log.kind} group: the server assigns its partitions, and the "
            "records show who joined and who is gone, but no cause"
        )
    if waiting := waiting_text(log.epoch_view):
        remark(f"{waiting[0].lower()}{waiting[1:].removesuffix('.')}")
    first = next((each for each in entries if isinstance(each, Round)), None)
    if first is not None and is_first(first):
        unknown = "the cause of the first rebalance is not known"
        if found.since_ms is None:
            remark(f"{unknown}, as a compaction has removed the record before it")
        else:
            remark(f"{unknown}, as {NO_RECORD}: give --since an earlier time")


def remark_on_skipped(log: "GroupLog") -> None:
    """Say which records could not be decoded."""
    for key_type, times in sorted(log.unknown_types.items()):
        records = count(times, "record")
        remark(f"{records} of key type {key_type}, which this version does not know")
    if log.unreadable:
        remark(f"skipped {count(log.unreadable, 'unreadable record')} ({log.first_error})")


def since_text(since_ms: int | None) -> str:
    """Return from when on the log was read, for a line."""
    return "in the whole log" if since_ms is None else f"since {time_text(since_ms)}"
