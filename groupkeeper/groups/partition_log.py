"""The log of one partition, as the driver that decides over it sees it.

The contract between a driver and a store. `embedded_log.py` is the store in the data directory of
this process; another one may stand on a topic of a Kafka cluster. The acceptance of a store is
tests/groups/test_partition_log.py, which runs over every implementation.

    claim ──► read ──► append_from ... ──► claim (after a failure) ──► ... ──► release

Everything is called on the event loop and does not block it. The promises:

1. *One owner.* A claim ends all earlier ones, of this process and of others. Nothing of an earlier
   claim reaches the log after it, and no append of an earlier one is under way in this process.
2. *A newer owner is final.* While another process has the log, nothing more is written, and an
   append or the next claim ends with `Fenced`. An owner that was told so never claims again: two
   processes would outbid each other for ever. Restart the one that is to have the log.
3. *Durable or not.* The owner of a batch is told once: `written` when it survives a crash,
   `not_written` otherwise. An outcome that is unknown is a failure: the next `read` may find the
   batch, whole and in its place, but nothing of it was acknowledged.
4. *In order.* An author is asked for more when the outcome of all that it gave before was told.
5. *By log.* The batches of one author for several logs are written together where the store can do
   that, and each has an outcome of its own. A log that fails closes what depends on it, no more.
   Where a batch belongs to another one, it is not written without that; never the reverse.

An owner keeps its batches within `message.max.bytes`: a store may refuse a larger one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.protocol.timed_batch import TimedRecord


class PartitionLog(Protocol):
    """The log of one partition. Errors are those of `storage/errors.py`, and OSError."""

    async def claim(self, owner: "LogOwner") -> int:
        """Take the ownership, before the first `read` and again after every failure.

        Returns the leader epoch: larger than all in the log, and than those of earlier claims.
        Until the next claim, `owner.lost` is called if the log notices that it may have been taken
        away. Raises Fenced if another process has it, Corrupt if the log is damaged, and other
        errors after which the claim may be tried again. May be cancelled.
        """

    def claim_empty(self, owner: "LogOwner") -> int | None:
        """`claim` at once, if it is known without waiting that the log has no records.

        Only before the first append to any log of the store. None: use `claim` and `read`.
        """

    async def claim_beside(self, owner: "LogOwner", epoch: int) -> int:
        """`claim` for a log that has the same owner as another one, which was claimed under
        `epoch`: this is returned, unless the log has a larger one. A log that is new costs nothing
        before its first append. No append of an earlier claim is under way afterwards.
        """

    @property
    def is_new(self) -> bool:
        """It is known without waiting that the log never had records."""

    def claim_new(self, owner: "LogOwner", epoch: int) -> None:
        """`claim_beside` at once, of a log that `is_new`. Only before the first append to it."""

    async def read(self, take: Callable[[bytes], None]) -> None:
        """Pass all record batches to `take`, in order, in runs of whole batches of about 1 MiB.

        `take` may be called on another thread, one call at a time. What it raises ends the reading
        and is raised. Also raises Corrupt and others. May be cancelled.
        """

    def append_from(self, author: "Author") -> None:
        """Ask `author.take` for batches soon, once for any number of calls until then."""

    async def release(self) -> None:
        """Give the ownership up and let go of all resources: the owner appends no more.

        Nothing that was `written` is lost. A store that is closed releases all its logs.
        """


@dataclass(slots=True)
class LateRecords(Unwritten):
    """Records that are made when they are written. `records` is empty, `size` an estimate."""

    def make(self) -> Sequence[Sequence[TimedRecord]]:
        """The records of one or more batches, or none. On any thread, once, unless the batch is
        left out before. What it raises is told to the owner as a failure.
        """
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class LogBatch:
    """Records to be appended to a log as one batch, under its last claim."""

    log: PartitionLog
    owner: "LogOwner"
    """Told the outcome."""
    unwritten: Unwritten
    """`LateRecords` may become several batches with one outcome."""
    belongs_to: "LogBatch | None" = None
    """Another one of the same `take`, before it: this one is not written without that."""


class LogOwner(Protocol):
    """Who has claimed a log, and is told how it fares."""

    def written(self, unwritten: Unwritten) -> None:
        """A batch is durable."""

    def not_written(self, error: BaseException) -> None:
        """A batch failed, or what it is made of could not be had. Nothing of it, and nothing that
        was appended after it, may be acknowledged; claim the log again before the next append.

        Fenced: a newer owner has the log. SyncFailed: the store takes no more work, and the process
        has to end.
        """

    def lost(self, error: BaseException) -> None:
        """Another process may own the log. Claim it again to find out, unless this is Fenced."""


class Author(LogOwner, Protocol):
    """A log's owner as the source of its records, and of those for other logs beside them."""

    def take(self) -> Sequence[LogBatch]:
        """What to append now, at most one batch for each log; nothing if it has none left.

        More may follow: then the author calls `append_from` again when these are written. If this
        raises, the author is told `not_written`.
        """
