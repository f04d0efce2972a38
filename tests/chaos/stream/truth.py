"""What a server has ever written to its logs, whatever became of it since.

Every segment is linked as soon as its file is there. Appends go on in the linked file, and
compaction replaces the name, not the file: so the link has all records as they were written.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from groupkeeper.protocol.record_batch import decode_records, read_header
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    decode_key,
    decode_offset_value,
)

TOPICS = ("__consumer_offsets", "__group_events")
POLL_SECONDS = 0.01


class Told(NamedTuple):
    """What a record says: the group, and what it commits."""

    group: str | None
    partition: int | None = None
    committed: int | None = None


class Links:
    """Links the segments of a data directory into a folder, until it is told to end."""

    def __init__(self, data_dir: Path, folder: Path) -> None:
        self._data_dir = data_dir
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._link()

    def _work(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._link()

    def _link(self) -> None:
        for topic in TOPICS:
            for segment in self._data_dir.glob(f"{topic}-*/*.log"):
                target = self._folder / segment.parent.name / segment.name
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        os.link(segment, target)
                    except FileNotFoundError:
                        continue

    def records(self, topic: str) -> dict[tuple[int, int], Told]:
        """By partition and offset in the log."""
        found: dict[tuple[int, int], Told] = {}
        for folder in self._folder.glob(f"{topic}-*"):
            partition = int(folder.name.rpartition("-")[2])
            for segment in sorted(folder.iterdir()):
                for offset, told in _records(segment.read_bytes(), topic):
                    found[partition, offset] = told
        return found


def _records(data: bytes, topic: str) -> Iterator[tuple[int, Told]]:
    position = 0
    while position < len(data):
        header = read_header(data, position)
        for record in decode_records(data, header):
            key = record.key or b""
            if topic == TOPICS[0]:
                yield record.offset, _told(key, record.value)
            else:
                yield record.offset, Told(key.decode() or None)
        position = header.end


def _told(key: bytes, value: bytes | None) -> Told:
    decoded = decode_key(key)
    if not isinstance(decoded, OffsetCommitKey):
        return Told(getattr(decoded, "group", None))
    if value is None:
        return Told(decoded.group, decoded.partition)
    return Told(decoded.group, decoded.partition, decode_offset_value(value).offset)
