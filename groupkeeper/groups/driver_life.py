"""The life of a driver of a partition: its states, what clients get in each of them, and when a
partition that has failed is tried again.

docs/states.md is made from the tables.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from groupkeeper.groups.loader import ReloadBackoff, is_damage
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import Fenced, StorageError


class DriverState(StrEnum):
    """The life cycle of a driver, as `/readyz` and the metrics show it."""

    LOADING = "loading"
    """Its log is claimed and read for the first time."""
    ACTIVE = "active"
    """Requests are decided."""
    CLOSED = "closed"
    """It failed, and is claimed and loaded again after ever longer pauses, until that works."""
    ABSENT = "absent"
    """Another process owns it. Stays so until this process is restarted."""
    DRAINING = "draining"
    """The process ends: what is under way is written, nothing new is begun."""


TRANSITIONS: Final[Mapping[DriverState, Sequence[DriverState]]] = {
    DriverState.LOADING: (
        DriverState.ACTIVE,
        DriverState.CLOSED,
        DriverState.ABSENT,
        DriverState.DRAINING,
    ),
    DriverState.ACTIVE: (DriverState.CLOSED, DriverState.ABSENT, DriverState.DRAINING),
    DriverState.CLOSED: (
        DriverState.ACTIVE,
        DriverState.CLOSED,
        DriverState.ABSENT,
        DriverState.DRAINING,
    ),
    DriverState.ABSENT: (DriverState.DRAINING,),
    DriverState.DRAINING: (),
}


class AnswerCodes(NamedTuple):
    """What requests get in a state."""

    new: ErrorCode
    """Those that come; NONE: they are decided."""
    waiting: ErrorCode
    """Those that wait when the state begins; NONE: none does, or they go on waiting. When the
    process ends, those that waited until then."""


ANSWERS: Final[Mapping[DriverState, AnswerCodes]] = {
    DriverState.LOADING: AnswerCodes(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
    DriverState.ACTIVE: AnswerCodes(ErrorCode.NONE, ErrorCode.NONE),
    DriverState.CLOSED: AnswerCodes(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
    ),
    DriverState.ABSENT: AnswerCodes(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    DriverState.DRAINING: AnswerCodes(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR
    ),
}
"""While a partition loads, Heartbeat is answered NONE, as in Kafka: members wait for it, and do not
rejoin because of a restart."""
UNSERVED: Final = AnswerCodes(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
"""In place of the row of CLOSED, once the partition may stay closed: its log is damaged, or could
not be loaded for `PATIENCE_S`. No member is told any more that it is alive. Source: Kafka's
`CoordinatorRuntime`, in whose state FAILED requests get NOT_COORDINATOR."""
PATIENCE_S: Final = 10.0
"""How long loads may fail before clients are told. A disk that fails for some seconds costs no
rebalance, though some clients rejoin when a heartbeat is answered NOT_COORDINATOR."""


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
        partition is asked."""
        self._failing_since: float | None = None
        """When the first of the loads failed that have failed in a row; None after one that did
        not."""
        self._partition = partition
        self._problem = ""
        self._backoff = ReloadBackoff()

    @property
    def answers(self) -> AnswerCodes:
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
