"""Stores and logs on a disk in memory: the steps that the tests of the storage share."""

import errno
import json
import re

import pytest
from crc32c import crc32c

from groupkeeper.storage.errors import AppendFailed
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append
from groupkeeper.storage.store import Store
from tests.support.batches import TIME, batch, values_of
from tests.support.fake_files import FakeDisk, FakeFiles

NAME = "__consumer_offsets-0"
ASIDE = "__group_events-0"
"""A second log of the same shard."""

FULL = OSError(errno.ENOSPC, "No space left on device")


def open_store(disk: FakeDisk, node: int = 0, limits: Limits | None = None) -> Store:
    """The store of a new process."""
    return Store(FakeFiles(disk), "data", node, limits)


def append(log: Log, *values: bytes, epoch: int = 1) -> Append:
    return Append(log, epoch, TIME, [(b"key", value) for value in values])


def put(store: Store, *values: bytes, name: str = NAME, epoch: int = 1) -> None:
    """A round of one batch."""
    assert store.commit([append(store.open_log(name), *values, epoch=epoch)]) == [None]


def make_claims_durable(store: Store, epoch: int = 1) -> None:
    """They are durable with the next round: one of another log."""
    put(store, b"v", name=ASIDE, epoch=epoch)


def values_in(log: Log) -> list[bytes | None]:
    """The values of all records that are kept."""
    return [value for chunk in log.batches(log.start_offset) for value in values_of(chunk)]


def values_of_log(store: Store, name: str = NAME) -> list[bytes | None]:
    return values_in(store.open_log(name))


def fail_append(disk: FakeDisk, log: Log) -> None:
    """Let an append fail half-way: the log must be opened again."""
    disk.failures[disk.calls + 1] = FULL
    with pytest.raises(AppendFailed, match="No space left"):
        log.append(batch(log.next_offset, b"half of this is written"))


def segment_paths(disk: FakeDisk, name: str) -> list[str]:
    return [f"data/{name}/{file}" for file in disk.children(f"data/{name}") if ".log" in file]


def journal_paths(disk: FakeDisk) -> list[str]:
    return [f"data/journals/{file}" for file in disk.children("data/journals")]


def salt_positions(disk: FakeDisk, journal: str) -> list[int]:
    """Where the flushes of a journal begin."""
    data, salt = disk.contents(journal), bytes.fromhex(journal[-16:])
    return [found.start() for found in re.finditer(re.escape(salt), data)]


def write_file(disk: FakeDisk, path: str, data: bytes, position: int = 0) -> None:
    """Change a file while no process runs; durable."""
    files = FakeFiles(disk)
    handle = files.open(path, create=True)
    files.write(handle, data, position)
    files.sync(handle)
    files.close(handle)


def cut_file(disk: FakeDisk, path: str, size: int) -> None:
    """Shorten, or lengthen with zeros, a file while no process runs; durable."""
    files = FakeFiles(disk)
    handle = files.open(path)
    files.truncate(handle, size)
    files.sync(handle)
    files.close(handle)


def rewrite_format(disk: FakeDisk, **changes: object) -> None:
    """Change what the format file of a data directory says."""
    path = "data/format"
    line, _ = disk.contents(path).split(b"\n", 1)
    line = json.dumps(json.loads(line) | changes).encode()
    cut_file(disk, path, 0)
    write_file(disk, path, line + b"\n%08x\n" % crc32c(line))
