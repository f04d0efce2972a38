"""Journals as text: a line for each flush and for each entry in it.

storage/journal/format.py describes the bytes.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

from groupkeeper.cli.dump.segment import PAUSE_S, TRIES, Dump, named
from groupkeeper.protocol.record_batch import read_header
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.journal.format import (
    BATCH,
    CLAIM,
    FLUSH,
    MARK,
    JournalEntry,
    ends_of,
    entries_of,
    flush_after,
    flush_at,
)
from groupkeeper.storage.journal.journal import first_flush_and_salt, node_of
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.marks import SECTOR, Mark, whole_sectors


class _Flush(NamedTuple):
    """A sound flush in a journal."""

    window: Window
    number: int
    position: int
    size: int
    """Size of the payload."""

    @property
    def end(self) -> int:
        return self.position + FLUSH.size + self.size

    def entries(self) -> Iterator[JournalEntry]:
        return entries_of(self.window, self.position + FLUSH.size, self.size)


def sum_up_journal(dump: Dump, path: str) -> None:
    """Show a line about a journal, and its damage. Raises OSError."""
    flushes, end = "none", 0
    logs: set[bytes] = set()
    for each in _flushes(dump, path):
        flushes, end = f"{first_flush_and_salt(path)[0]} to {each.number}", each.end
        logs |= {entry.name for entry in each.entries() if entry.kind == BATCH}
    dump.line(f"{path}: flushes: {flushes} size: {end} logs: {len(logs)}")


def show_journal(dump: Dump, path: str) -> None:
    """Show a journal. Raises OSError."""
    first, salt = first_flush_and_salt(path)
    dump.line(f"Dumping {path}")
    node = node_of(path.rpartition("/")[2])
    dump.line(f"node: {node} firstFlush: {first} salt: {salt.hex()}")
    for each in _flushes(dump, path):
        dump.line(f"flush: {each.number} position: {each.position} size: {each.size}")
        for entry in each.entries():
            _show_entry(dump, entry)


def _flushes(dump: Dump, path: str) -> Iterator[_Flush]:
    """Yield the sound flushes, and report the gaps between them as damage. Raises OSError."""
    number, salt = first_flush_and_salt(path)
    with opened(dump.files, path) as handle:
        end = tries = 0
        window = Window(dump.files, handle, dump.files.size(handle))
        while True:
            position = place = whole_sectors(end)
            size = flush_at(window, position, salt, number)
            if size >= 0:
                found = _Flush(window, number, position, size)
                dump.told(path, found.end - position)
                yield found
                end, number = found.end, number + 1
                continue
            position, later = flush_after(window, end, salt, number)
            is_over = position < 0 and not any(dump.files.read(handle, SECTOR, place))
            if not is_over and tries < TRIES:  # a server may be writing it
                tries += 1
                time.sleep(PAUSE_S)
                window = Window(dump.files, handle, dump.files.size(handle))
                continue
            if position < 0:
                if not is_over:
                    dump.damage(path, f"the flush at byte {place} is unfinished")
                return
            what = f"the flush at byte {place} is damaged, a sound one follows at byte {position}"
            dump.damage(path, what)
            end, number = position, later


def _show_entry(dump: Dump, entry: JournalEntry) -> None:
    name, data = entry.name.decode(), bytes(entry.data)
    if entry.kind == BATCH:
        header = read_header(data)
        fields = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "partitionLeaderEpoch": header.leader_epoch,
            "position": entry.position,
            "size": len(data),
        }
        dump.line(f"batch of {name}: {named(fields)}")
        if dump.records:
            dump.show_records("a batch", data, header, dump.text_of(name))
    elif entry.kind == CLAIM:
        dump.line(f"claim of shard {name}: epoch: {int.from_bytes(data, 'big')}")
    elif entry.kind == MARK:
        mark = Mark.from_bytes(data)
        place = f"segment: {mark.base} size: {mark.size} endOffset: {mark.end}"
        dump.line(f"mark of {name}: {place} crc: {mark.crc}")
    else:
        first, ends = ends_of(data)
        dump.line(f"ends of the flushes from {first} on: {named(ends)}".rstrip())
