"""Appends whose records are made when their round is written, on the thread that writes it.

For what is stored beside the records that it tells of, such as events: making it takes time that
the event loop does not have, and it shares the fate of those records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch
from groupkeeper.storage.errors import AppendFailed, StorageError, SyncFailed
from groupkeeper.storage.queued_log import Append, Encoded
from groupkeeper.storage.scan import Batch

T = TypeVar("T")


@dataclass(slots=True)
class TimedAppend(Append):
    """Batches of records with times of their own; `records` and `timestamp_ms` are not used."""

    batches: Sequence[Sequence[TimedRecord]] = ()

    def encode(self, base_offset: int) -> Sequence[Encoded]:
        encoded = []
        for records in self.batches:
            data = encode_timed_batch(base_offset, self.epoch, records)
            last, newest = base_offset + len(records) - 1, max(each[0] for each in records)
            encoded.append((data, Batch(0, len(data), base_offset, last, self.epoch, newest)))
            base_offset = last + 1
        return encoded


@dataclass(slots=True)
class LateAppend:
    """An append that is not made yet."""

    make: Callable[[], Append]
    """What it raises leaves this append out of the round, and nothing else; so does what encoding
    the append raises."""
    belongs_to: "Append | LateAppend | None" = None
    """An earlier one of the same round: without that one, this one is left out, too."""

    def made(self, left_out: dict[int, StorageError]) -> Append | StorageError:
        """The append, or why there is none. `left_out`: what was, by `id` of the append."""
        if self.belongs_to is not None and id(self.belongs_to) in left_out:
            return left_out[id(self.belongs_to)]
        return _attempt(self.make)

    @staticmethod
    def encoded(append: Append, base_offset: int) -> Sequence[Encoded] | StorageError:
        """`append.encode` of one that was made, or why it has failed."""
        return _attempt(lambda: append.encode(base_offset))


def _attempt(job: Callable[[], T]) -> T | StorageError:
    try:
        return job()
    except SyncFailed:
        raise
    except StorageError as error:
        return error
    except Exception as bug:  # noqa: BLE001  # of whoever makes the records
        failed = AppendFailed(f"its records could not be made: {bug!r}")
        failed.__cause__ = bug
        return failed


def after(append: Append | LateAppend, other: Append | LateAppend) -> LateAppend:
    """An append that is left out of its round if the other one is."""
    make = append.make if isinstance(append, LateAppend) else lambda: append
    return LateAppend(make, other)
