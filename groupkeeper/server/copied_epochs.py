"""Finds the newest leader epoch in data that was copied from a broker.

A broker's partitions get a new leader epoch with every restart. Clients remember the newest one of
each partition, from commits and from records, and wait as long as Metadata has an older one. So the
topics of this server continue after the newest epoch in what was copied.

Source: Kafka's `Metadata.updateLastSeenEpochIfNewer`, in the client.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import CorruptBatch, decode_records, iter_batches
from groupkeeper.storage.epochs import EpochFile
from groupkeeper.storage.files import Files
from groupkeeper.storage.opening import NO_END
from groupkeeper.storage.scan import valid_batches
from groupkeeper.storage.segment import base_of
from groupkeeper.storage.whole import opened
from groupkeeper.storage.window import Window

_COMMIT_KEY: Final = b"\x00\x01"
"""What the key of a committed offset begins with."""
_WITH_EPOCH: Final = 3
"""The first version of its value that has a leader epoch."""
_VALUE: Final = Struct(">hqi")
"""Version, offset, leader epoch."""


def newest_epoch_of_logs(files: Files, folders: Iterable[str]) -> int:
    """The newest epoch in which a log of these folders was written; -1 without any."""
    newest = -1
    for folder in folders:
        epochs = EpochFile(files, folder)
        epochs.load(NO_END)
        newest = max(newest, epochs.last_epoch)
    return newest


def newest_epoch_of_commits(files: Files, folders: Iterable[str]) -> int:
    """The newest epoch that a committed offset in these folders of the group topic has, or -1.

    Reads all of them, up to what is damaged: what that means is up to the opening of the log.
    """
    newest = -1
    for folder in folders:
        for name in files.list_folder(folder):
            if base_of(name) is not None:
                newest = max([newest, *_epochs_in(files, f"{folder}/{name}")])
    return newest


def _epochs_in(files: Files, segment: str) -> Iterator[int]:
    with opened(files, segment) as handle:
        window = Window(files, handle, files.size(handle))
        for batch in valid_batches(window, 0, 0):
            at = window.find(batch.position, batch.size)
            yield from _epochs_of(window.buffer[at : at + batch.size])


def _epochs_of(data: bytes) -> Iterator[int]:
    try:
        for header in iter_batches(data):
            for record in () if header.is_control else decode_records(data, header):
                value = record.value or b""
                if (record.key or b"").startswith(_COMMIT_KEY) and len(value) >= _VALUE.size:
                    version, _, epoch = _VALUE.unpack_from(value)
                    if version >= _WITH_EPOCH:
                        yield epoch
    except (CorruptBatch, DecodeError):
        return  # told when the log is opened
