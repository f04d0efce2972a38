"""Life cycle of a partition's driver: states, error codes for clients, and reload pauses.

docs/states.md is generated from the tables.
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
    """The states of a driver, as shown by `/readyz` and the metrics."""

    LOADING = "loading"
    """Its log is claimed and read for the first time."""
    ACTIVE = "active"
    """Requests are decided."""
    CLOSED = "closed"
    """Failed; claimed and loaded again after increasing pauses, until that works."""
    ABSENT = "absent"
    """Another process owns the log. Final until this process is restarted."""
    DRAINING = "draining"
    """The process is ending: work in progress is written, and no new work is begun."""


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
    """The error codes for requests in a state."""

    new: ErrorCode
    """For new requests; NONE: they are decided."""
    waiting: ErrorCode
    """For requests that are waiting when the state begins; NONE: there are none, or they keep
    waiting. If the process ends, for those that waited until then."""


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
"""While a partition loads, Heartbeat is answered NONE, as in Kafka: members wait for the load, and
do not rejoin because of a restart."""
UNSERVED: Final = AnswerCodes(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
"""Replaces the row of CLOSED once the partition may stay closed: its log is damaged, or could not
be loaded for `PATIENCE_S`. Members are no longer told that they are alive. Source: Kafka's
`CoordinatorRuntime`, in whose state FAILED requests get NOT_COORDINATOR."""
PATIENCE_S: Final = 10.0
"""How long loads may fail before clients get errors. A disk that fails for some seconds then causes
no rebalance: some clients rejoin when a heartbeat is answered NOT_COORDINATOR."""


NEWER_OWNER: Final = "another process owns the partition"
REMEDY: Final = "end that process, then restart this one to claim the partition again"

_log = Logger("partition")


class DriverLife:
    """The state of a partition's driver. Times are seconds of one clock."""

    def __init__(self, partition: int) -> None:
        self.state = DriverState.LOADING
        self.refusal = ErrorCode.NONE
        """Error for requests instead of the partition's answer; NONE: the partition decides. Set
        when the process ends, while the partition would still decide, and when the partition may
        stay closed, while it would still load."""
        self._failing_since: float | None = None
        """Time of the first failure in the current series of failed loads; None after a success."""
        self._partition = partition
        self._problem = ""
        self._backoff = ReloadBackoff()

    @property
    def answers(self) -> AnswerCodes:
        """The error codes for requests in the current state."""
        may_stay = self.state is DriverState.CLOSED and bool(self.refusal)
        return UNSERVED if may_stay else ANSWERS[self.state]

    @property
    def is_absent(self) -> bool:
        """Whether another process owns the log."""
        return self.state is DriverState.ABSENT

    @property
    def cannot_be_loaded(self) -> bool:
        """Whether the last load failed (log damaged, disk failing) or the log has another owner."""
        return self._failing_since is not None or self.is_absent

    def _become(self, state: DriverState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    def activate(self, now: float) -> None:
        """Enter the state ACTIVE, after a load."""
        self._become(DriverState.ACTIVE)
        self._problem, self._failing_since, self.refusal = "", None, ErrorCode.NONE
        self._backoff.active(now)

    def fail(self, event: str, error: BaseException, now: float) -> float:
        """Log a failure and close the partition: for good, if a newer owner has its log.

        Returns the seconds until it is loaded again, if it is.
        """
        self._note(event, error)
        if self.state is not DriverState.DRAINING:
            gone = isinstance(error, Fenced)
            self._become(DriverState.ABSENT if gone else DriverState.CLOSED)
        return self._backoff.failed(error, now)

    def fail_to_load(self, error: BaseException, now: float) -> float:
        """Do the same as `fail`, after an incomplete load."""
        if self._failing_since is None:
            self._failing_since = now
        pause = self.fail("cannot be loaded", error, now)
        is_closed = self.state is DriverState.CLOSED
        if is_closed and (is_damage(error) or now - self._failing_since >= PATIENCE_S):
            self.refusal = UNSERVED.new
        return pause

    def drain(self) -> None:
        """Enter the state DRAINING: the process ends."""
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
        """Return state and reason, without groups."""
        reason = "" if self.state is DriverState.ACTIVE else self._problem or self.state
        left = self._backoff.left(now)
        if self.state is DriverState.CLOSED and left:
            reason += f"; tried again in {left:.1f} s"
        return PartitionSnapshot(self._partition, self.state, reason=reason)
