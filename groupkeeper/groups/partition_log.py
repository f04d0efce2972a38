"""The interface of a partition's log, as used by its driver.

The contract between a driver and a store. `embedded_log.py` is the store in the data directory of
this process; another implementation may use a topic of a Kafka cluster. The acceptance tests of a
store are tests/groups/test_partition_log.py, which runs over every implementation.

    claim ──► read ──► append_from ... ──► claim (after a failure) ──► ... ──► release

Everything is called on the event loop and does not block it. The guarantees:

1. *One owner.* A claim ends all earlier ones, of this process and of others. Nothing of an earlier
   claim reaches the log after it, and no append of an earlier one is in progress in this process.
2. *A newer owner is final.* While another process has the log, nothing more is written, and an
   append or the next claim ends with `Fenced`. An owner that got `Fenced` never claims again: two
   processes would outbid each other for ever. Restart the process that should have the log.
3. *Durable or not.* Each batch has one outcome: `written` when it survives a crash, `not_written`
   otherwise. An unknown outcome is a failure: the next `read` may find the batch, whole and in its
   place, but nothing of it was acknowledged.
4. *In order.* An author is asked for more only after all of its earlier batches have outcomes.
5. *By log.* The batches of one author for several logs are written together if the store can do
   that, and each has its own outcome. A log that fails closes only what depends on it. A batch
   that belongs to another one is not written without that; never the reverse.

An owner keeps its batches within `message.max.bytes`: a store may refuse a larger one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.protocol.timed_batch import TimedRecord


class PartitionLog(Protocol):
    """The log of one partition. Raises the errors of `storage/errors.py`, and OSError."""

    async def claim(self, owner: "LogOwner") -> int:
        """Take ownership, before the first `read` and again after every failure.

        Returns the leader epoch: larger than all in the log, and than those of earlier claims.
        Until the next claim, `owner.lost` is called if the log notices that it may have been taken
        over. Raises Fenced if another process has it, Corrupt if the log is damaged, and other
        errors after which the claim may be retried. May be cancelled.
        """

    def claim_empty(self, owner: "LogOwner") -> int | None:
        """`claim` immediately, if the log is known without waiting to have no records.

        Only before the first append to any log of the store. None: use `claim` and `read`.
        """

    async def claim_beside(self, owner: "LogOwner", epoch: int) -> int:
        """Claim a log whose owner has already claimed another one under `epoch`.

        Returns that epoch, or a larger one if the log has a larger one. A new log costs nothing
        before its first append. No append of an earlier claim is in progress afterwards.
        """

    @property
    def is_new(self) -> bool:
        """Whether the log is known without waiting to have never had records."""

    def claim_new(self, owner: "LogOwner", epoch: int) -> None:
        """`claim_beside` immediately, if `is_new`. Only before the first append to the log."""

    async def read(self, take: Callable[[bytes], None]) -> None:
        """Pass all record batches to `take`, in order, in runs of whole batches of about 1 MiB.

        `take` may be called on another thread, one call at a time; an exception from it ends the
        read and is raised. Also raises Corrupt and others. May be cancelled.
        """

    def append_from(self, author: "Author") -> None:
        """Call `author.take` for batches soon, once for any number of calls until then."""

    async def release(self) -> None:
        """Give up ownership and release all resources: the owner appends no more.

        Nothing that was `written` is lost. A store that is closed releases all its logs.
        """


@dataclass(slots=True)
class LateRecords(Unwritten):
    """Records that are made when they are written. `records` is empty, `size` an estimate."""

    def make(self) -> Sequence[Sequence[TimedRecord]]:
        """Return the records of any number of batches. Called on any thread, once, unless the batch
        is left out before. An exception is reported to the owner as a failure.
        """
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class LogBatch:
    """Records to be appended to a log as one batch, under its last claim."""

    log: PartitionLog
    owner: "LogOwner"
    """Receives the outcome."""
    unwritten: Unwritten
    """`LateRecords` may become several batches with one outcome."""
    belongs_to: "LogBatch | None" = None
    """An earlier batch of the same `take`, without which this one is not written."""


class LogOwner(Protocol):
    """The claimer of a log, which receives the outcomes of its batches."""

    def written(self, unwritten: Unwritten) -> None:
        """Called when a batch is durable."""

    def not_written(self, error: BaseException) -> None:
        """Called when a batch failed, or its records could not be made.

        Nothing of it, and nothing appended after it, may be acknowledged; claim the log again
        before the next append. Fenced: a newer owner has the log. SyncFailed: the store takes no
        more work, and the process has to end.
        """

    def lost(self, error: BaseException) -> None:
        """Called when another process may own the log. Claim again to find out, unless Fenced."""


class Author(LogOwner, Protocol):
    """The owner of a log as the source of its records, and of those for other logs beside them."""

    def take(self) -> Sequence[LogBatch]:
        """Return the next batches to append, at most one per log; nothing if there are none.

        If more follow, the author calls `append_from` again when these are written. If this raises,
        the author gets `not_written`.
        """
