"""The states of the driver of a partition, and what clients get in each of them.

docs/states.md is made from these tables.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from groupkeeper.protocol.errors import ErrorCode


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


class Answers(NamedTuple):
    """What requests get in a state."""

    new: ErrorCode
    """Those that come; NONE: they are decided."""
    waiting: ErrorCode
    """Those that wait when the state begins; NONE: none does, or they go on waiting. When the
    process ends, those that waited until then."""


ANSWERS: Final[Mapping[DriverState, Answers]] = {
    DriverState.LOADING: Answers(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
    DriverState.ACTIVE: Answers(ErrorCode.NONE, ErrorCode.NONE),
    DriverState.CLOSED: Answers(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    DriverState.ABSENT: Answers(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    DriverState.DRAINING: Answers(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
}
"""While a partition loads, Heartbeat is answered NONE, as in Kafka: members wait for it, and do not
rejoin because of a restart."""
UNSERVED: Final = Answers(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
"""In place of the row of CLOSED, once the partition may stay closed: its log is damaged, or could
not be loaded for `PATIENCE_S`. No member is told any more that it is alive. Source: Kafka's
`CoordinatorRuntime`, in whose state FAILED requests get NOT_COORDINATOR."""
PATIENCE_S: Final = 10.0
"""How long loads may fail before clients are told. A disk that fails for some seconds costs no
rebalance, though some clients rejoin when a heartbeat is answered NOT_COORDINATOR."""
