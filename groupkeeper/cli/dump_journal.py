"""Journals as text: a line for each round and for each entry in it.

The bytes are described in storage/journal_format.py.
"""

import time
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from groupkeeper.cli.dump_segment import PAUSE_S, TRIES, show_batch
from groupkeeper.cli.dumping import Dump
from groupkeeper.storage.journal import first_round_and_salt, node_of
from groupkeeper.storage.journal_format import (
    BATCH,
    CLAIM,
    MARK,
    ROUND,
    Entry,
    ends_of,
    entries_of,
    round_after,
    round_at,
)
from groupkeeper.storage.marks import SECTOR, Mark, whole_sectors
from groupkeeper.storage.scan import FIELDS
from groupkeeper.storage.window import Window

_EPOCH: Final = Struct(">I")


class Round(NamedTuple):
    """A round in a journal, or what is damaged there."""

    number: int
    position: int
    size: int
    """Of the payload."""
    damage: str = ""


class Summary(NamedTuple):
    """What was shown of a journal."""

    rounds: int
    first: int
    last: int
    size: int
    """Bytes up to the end of the last round."""
    logs: frozenset[str]
    """The logs that it has batches of."""


def show_journal(dump: Dump, path: str, *, quiet: bool = False) -> Summary:
    """Show a journal; with `quiet`, only damage. Raises OSError."""
    handle = dump.files.open(path)
    try:
        return _show(dump, path, handle, quiet=quiet)
    finally:
        dump.files.close(handle)


def _show(dump: Dump, path: str, handle: int, *, quiet: bool) -> Summary:
    first, salt = first_round_and_salt(path)
    if not quiet:
        dump.line(f"Dumping {path}")
        node = node_of(path.rpartition("/")[2])
        dump.line(f"node: {node} firstRound: {first} salt: {salt.hex()}")
    rounds, last, end = 0, first - 1, 0
    logs: set[str] = set()
    for window, each in _rounds(dump, handle, first, salt):
        if each.damage:
            dump.damage(path, each.damage)
            continue
        rounds, last, end = rounds + 1, each.number, each.position + ROUND.size + each.size
        dump.told(path, ROUND.size + each.size)
        if not quiet:
            dump.line(f"round: {each.number} position: {each.position} size: {each.size}")
        for entry in entries_of(window, each.position + ROUND.size, each.size):
            if entry.kind == BATCH:
                logs.add(entry.name.decode())
            if not quiet:
                _show_entry(dump, entry)
    return Summary(rounds, first, last, end, frozenset(logs))


def _rounds(dump: Dump, handle: int, number: int, salt: bytes) -> Iterator[tuple[Window, Round]]:
    """The rounds from `number` on, and the damaged places between them."""
    end = tries = 0
    window = Window(dump.files, handle, dump.files.size(handle))
    while True:
        found = _round_at(window, end, salt, number)
        if found is not None:
            yield window, found
            end, number = found.position + ROUND.size + found.size, number + 1
            continue
        place = whole_sectors(end)
        position, later = round_after(window, end, salt, number)
        is_over = position < 0 and not any(dump.files.read(handle, SECTOR, place))
        if not is_over and tries < TRIES:  # a server may be writing it
            tries += 1
            time.sleep(PAUSE_S)
            window = Window(dump.files, handle, dump.files.size(handle))
            continue
        if position < 0:
            if not is_over:
                yield window, Round(number, place, 0, f"the round at byte {place} is unfinished")
            return
        what = f"the round at byte {place} is damaged, a sound one follows at byte {position}"
        yield window, Round(number, place, 0, what)
        end, number = position, later


def _round_at(window: Window, end: int, salt: bytes, number: int) -> Round | None:
    for position in (end, whole_sectors(end)):
        size = round_at(window, position, salt, number)
        if size >= 0:
            return Round(number, position, size)
    return None


def _show_entry(dump: Dump, entry: Entry) -> None:
    name = entry.name.decode()
    if entry.kind == BATCH:
        base, _, epoch, _, _, delta, _ = FIELDS.unpack_from(entry.data)
        dump.line(
            f"batch of {name}: baseOffset: {base} lastOffset: {base + delta} partitionLeaderEpoch: "
            f"{epoch} position: {entry.position} size: {len(entry.data)}"
        )
        if dump.records:
            show_batch(dump, bytes(entry.data), text=dump.text_of(name))
    elif entry.kind == CLAIM:
        dump.line(f"claim of shard {name}: epoch: {_EPOCH.unpack(entry.data)[0]}")
    elif entry.kind == MARK:
        mark = Mark.from_bytes(bytes(entry.data))
        dump.line(
            f"mark of {name}: segment: {mark.base} size: {mark.size} endOffset: {mark.end} "
            f"crc: {mark.crc}"
        )
    else:
        first, ends = ends_of(bytes(entry.data))
        shown = " ".join(f"{log}: {end}" for log, end in ends.items())
        dump.line(f"ends of the rounds from {first} on: {shown}".rstrip())
