"""Finds out how many partitions a copied `__consumer_offsets` was made with.

Used only if neither the format file nor a journal has the number: the folders were copied from a
broker, or the rest of the directory is lost. Group id and number determine a group's partition, so
the groups in the folders rule out wrong numbers.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import CorruptBatch, check_crc, decode_records, iter_batches
from groupkeeper.protocol.records.consumer_offsets import UnknownKey, decode_key
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files import Files
from groupkeeper.storage.whole import opened

SAMPLE_BYTES: Final = 256 * 1024
"""How much of each segment is read: a wrong number fits few groups."""

KEY: Final = "offsets.topic.num.partitions"


class UnknownCountError(StorageError):
    """The folders were made with another number than the one set, or the number is unknown."""


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
        """The number of partitions. `asked` is the setting; `given`: it is set, not the default.

        Raises UnknownCountError.
        """
        if given and self._fits(asked):
            return asked
        found = next(filter(self._fits, self._candidates(asked)), None)
        if given:
            advice = "to what it was" if found is None else f"to {found}"
            raise UnknownCountError(
                f"{self._data_dir} has folders of __consumer_offsets that were not made with "
                f"{KEY} = {asked}: set it {advice}, or leave it out"
            )
        if found is None:
            raise UnknownCountError(
                f"{self._data_dir} has folders of __consumer_offsets, with an "
                f"unknown number of partitions: set {KEY} to it, at least {self._least}"
            )
        return found

    def _candidates(self, asked: int) -> Iterator[int]:
        """Possible numbers, the most likely first; some may not fit."""
        yield self._leases
        if self._groups:
            yield asked
        if self._indexes == list(range(self._least)):  # all folders of a broker
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
    """The groups in the whole batches at the beginning of a segment."""
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
