"""Derives settings from data copied from a broker: its partition count and newest leader epoch.

The number of partitions of `__consumer_offsets` is derived only if neither the format file nor a
journal has it: the folders were copied from a broker, or the rest of the directory is lost. A wrong
number would put groups into other partitions than the folders in which they are.

A broker's partitions get a new leader epoch with every restart. Clients remember the newest one of
each partition, from commits and from records, and wait as long as Metadata has an older one. So the
topics of this server continue after the newest epoch in the copied data.

Source: Kafka's `Metadata.updateLastSeenEpochIfNewer`, in the client.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from struct import Struct
from typing import Final

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import CorruptBatch, check_crc, decode_records, iter_batches
from groupkeeper.protocol.records.consumer_offsets import UnknownKey, decode_key
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.epochs import EpochFile
from groupkeeper.storage.log.scan import valid_batches
from groupkeeper.storage.log.segment import base_of
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.opening import NO_END

SAMPLE_BYTES: Final = 256 * 1024
"""Bytes read of each segment. A wrong number is right for few groups, so some are enough."""

KEY: Final = "offsets.topic.num.partitions"


class OffsetsFolders:
    """The folders of the offsets topic, by partition."""

    def __init__(self, files: Files, data_dir: str, folders: dict[int, str]) -> None:
        """`folders` are paths by partition, at least one."""
        self._data_dir = data_dir
        self._indexes = sorted(folders)
        self._least = self._indexes[-1] + 1
        self._groups = {
            (index, group) for index, path in folders.items() for group in _groups_in(files, path)
        }
        leases = [int(n) for n in files.list_folder(f"{data_dir}/leases") if n.isdigit()]
        self._leases = max(leases, default=-1) + 1

    def partition_count(self, asked: int, *, given: bool) -> int:
        """Return the number of partitions. `asked`: the setting; `given`: an operator has set it.

        Raises StorageError if the folders contradict an operator, or give no number.
        """
        if given and self._fits(asked):
            return asked
        found = next(filter(self._fits, self._candidates(asked)), None)
        if given:
            advice = "to its former value" if found is None else f"to {found}"
            raise StorageError(
                f"{self._data_dir} has folders of __consumer_offsets that were not made with "
                f"{KEY} = {asked}: set it {advice}, or leave it out"
            )
        if found is None:
            raise StorageError(
                f"{self._data_dir} has folders of __consumer_offsets, with an "
                f"unknown number of partitions: set {KEY} to the right one, at least {self._least}"
            )
        return found

    def _candidates(self, asked: int) -> Iterator[int]:
        """Yield possible numbers, the most likely first; some may not fit."""
        yield self._leases
        if self._groups:
            yield asked
        if self._indexes == list(range(self._least)):  # no folder is missing
            yield self._least
        if not self._groups:  # then every number fits
            yield asked
            yield self._least

    def _fits(self, count: int) -> bool:
        return count >= self._least and all(
            partition_of(group, count) == index for index, group in self._groups
        )


def _groups_in(files: Files, folder: str) -> Iterator[str]:
    names = [name for name in files.list_folder(folder) if name.endswith(".log")]
    return chain.from_iterable(_groups_of(files, f"{folder}/{name}") for name in names)


def _groups_of(files: Files, segment: str) -> Iterator[str]:
    """Yield the groups in the whole batches at the beginning of a segment."""
    with opened(files, segment) as handle:
        data = files.read(handle, SAMPLE_BYTES, 0)
    try:
        for header in iter_batches(data):
            if header.is_control or not check_crc(data, header):
                continue
            for record in decode_records(data, header):
                key = decode_key(record.key or b"")
                if not isinstance(key, UnknownKey):
                    yield key.group
    except (CorruptBatch, DecodeError):
        return  # truncated or damaged: logged when the log is opened


_COMMIT_KEY: Final = b"\x00\x01"
"""Prefix of the key of a committed offset."""
_WITH_EPOCH: Final = 3
"""The first version of a committed offset's value that has a leader epoch."""
_VALUE: Final = Struct(">hqi")
"""Version, offset, leader epoch."""


def newest_epoch_of_logs(files: Files, folders: Iterable[str]) -> int:
    """Return the newest leader epoch in the logs of these folders; -1 if none has one."""
    newest = -1
    for folder in folders:
        epochs = EpochFile(files, folder)
        epochs.load(NO_END)
        newest = max(newest, epochs.last_epoch)
    return newest


def newest_epoch_of_commits(files: Files, folders: Iterable[str]) -> int:
    """Return the newest leader epoch of a committed offset in these folders of the offsets topic;
    -1 if none has one.

    Reads each segment up to its first damage, which opening the log will report.
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
        return  # reported when the log is opened
