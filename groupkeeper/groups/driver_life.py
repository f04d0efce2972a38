"""The life of a driver: the state it is in, why, and when it is tried again."""

from typing import Final

from groupkeeper.groups.driver_state import (
    ANSWERS,
    PATIENCE_S,
    TRANSITIONS,
    UNSERVED,
    Answers,
    DriverState,
)
from groupkeeper.groups.loader import ReloadBackoff, is_damage
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import Fenced, StorageError

NEWER_OWNER: Final = "another process owns the partition"
REMEDY: Final = "end that process, then restart this one to claim the partition again"

_log = Logger("partition")


class DriverLife:
    """What the driver of a partition knows of itself. Times are seconds of one clock."""

    def __init__(self, partition: int) -> None:
        self.state = DriverState.LOADING
        self.refusal = ErrorCode.NONE
        """What requests get in place of the partition's answer: when the process ends, as the
        partition would still decide, and when it may stay closed, as it would still load. NONE: the
        partition is asked.
        """
        self._failing_since: float | None = None
        """When the first of the loads failed that have failed in a row; None after one that did
        not.
        """
        self._partition = partition
        self._problem = ""
        self._backoff = ReloadBackoff()

    @property
    def answers(self) -> Answers:
        """What requests get now."""
        may_stay = self.state is DriverState.CLOSED and bool(self.refusal)
        return UNSERVED if may_stay else ANSWERS[self.state]

    @property
    def is_absent(self) -> bool:
        """Another process owns the log."""
        return self.state is DriverState.ABSENT

    @property
    def cannot_be_loaded(self) -> bool:
        """The last load failed (the log is damaged, or the disk fails), or another process owns the
        log: it may stay so.
        """
        return self._failing_since is not None or self.is_absent

    def _become(self, state: DriverState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    def activate(self, now: float) -> None:
        """The partition is loaded."""
        self._become(DriverState.ACTIVE)
        self._problem, self._failing_since, self.refusal = "", None, ErrorCode.NONE
        self._backoff.active(now)

    def fail(self, event: str, error: BaseException, now: float) -> float:
        """Log what has failed, and close the partition: for good, if a newer owner has its log.

        Returns the seconds until it is loaded again, if it is.
        """
        self._note(event, error)
        if self.state is not DriverState.DRAINING:
            gone = isinstance(error, Fenced)
            self._become(DriverState.ABSENT if gone else DriverState.CLOSED)
        return self._backoff.failed(error, now)

    def fail_to_load(self, error: BaseException, now: float) -> float:
        """As `fail`, after a load that did not come to its end."""
        if self._failing_since is None:
            self._failing_since = now
        pause = self.fail("cannot be loaded", error, now)
        is_closed = self.state is DriverState.CLOSED
        if is_closed and (is_damage(error) or now - self._failing_since >= PATIENCE_S):
            self.refusal = UNSERVED.new
        return pause

    def drain(self) -> None:
        """The process ends."""
        if self.state is not DriverState.DRAINING:
            self._become(DriverState.DRAINING)
            self.refusal = self.answers.new

    def _note(self, event: str, error: BaseException) -> None:
        if isinstance(error, Fenced):
            self._problem = f"{NEWER_OWNER}: {error}; {REMEDY}"
            _log.error(NEWER_OWNER, partition=self._partition, error=str(error), remedy=REMEDY)
            return
        self._problem = f"{event}: {error}"
        bug = error if not isinstance(error, StorageError | CorruptBatch | OSError) else None
        _log.error(event, partition=self._partition, error=str(error), exc_info=bug)

    def snapshot(self, now: float) -> PartitionSnapshot:
        """State and reason, without groups."""
        reason = "" if self.state is DriverState.ACTIVE else self._problem or self.state
        left = self._backoff.left(now)
        if self.state is DriverState.CLOSED and left:
            reason += f"; tried again in {left:.1f} s"
        return PartitionSnapshot(self._partition, self.state, reason=reason)
