"""What can happen to the requests that match a fault rule:

    broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="billing", times=2)

docs/testing-faults.md shows what clients do.
"""

from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.testing.faults.answers import (
    ErrorAnswer,
    Loading,
    StaleGeneration,
    StaleMetadata,
    WrongCoordinator,
)
from groupkeeper.testing.faults.crashes import Crash, DiskFull
from groupkeeper.testing.faults.rules import Effect, unknown
from groupkeeper.testing.faults.streams import (
    Close,
    Damaged,
    Delay,
    DelayAnswer,
    Drop,
    HalfOpen,
    HoldJoins,
    LosePlan,
    SlowReading,
    Throttle,
    Truncated,
)

__all__ = [
    "Effect",
    "close",
    "crash_before_durable",
    "crash_when_durable",
    "damaged",
    "delay",
    "delay_answer",
    "disk_full",
    "drop",
    "error",
    "half_open",
    "hold_joins",
    "loading",
    "lose_plan",
    "slow_reading",
    "stale_generation",
    "stale_metadata",
    "throttle",
    "truncated",
    "wrong_coordinator",
]

MOST: Final = 2**31 - 1
"""Of a number: throttle_time_ms has 32 bits."""
CODES: Final = tuple(code.name for code in ErrorCode if code)


# -- answers ---------------------------------------------------------------------------------------


def error(code: str) -> Effect:
    """Answer with an error of Kafka, such as `"NOT_COORDINATOR"`.

    It stands where the API has it for what the rule names: without a topic or partition, an
    OffsetFetch has it for the group; with one, for that partition. Matched entries have no effect.
    The others of the request are handled, and one answer has both. A Produce with acks 0 has no
    answer: its connection is closed. Raises WrongArgument.
    """
    if arguments.text(code, "code=") not in CODES:
        raise WrongArgument(unknown("error", code, CODES))
    return ErrorAnswer(code)


def throttle(ms: int) -> Effect:
    """Say in the answer that the client is throttled, and handle its next request on the connection
    only after that time, as a broker does (KIP-219).
    """
    return Throttle(arguments.whole(ms, "ms=", 1, MOST))


def stale_metadata() -> Effect:
    """Answer Metadata as it was when the rule was made: newer topics and partitions are unknown,
    deleted ones are there. Making the rule needs a broker that runs.
    """
    return StaleMetadata()


def wrong_coordinator(
    node_id: int | None = None, host: str | None = None, port: int | None = None
) -> Effect:
    """Name another node in answers to FindCoordinator, and answer requests of groups with
    NOT_COORDINATOR. By default the node has another id and this broker's address.
    """
    if node_id is not None:
        arguments.whole(node_id, "node_id=", -MOST, MOST)
    if host is not None:
        arguments.text(host, "host=")
    if port is not None:
        arguments.whole(port, "port=", 0, 65535)
    return WrongCoordinator(node_id, host, port)


def loading(seconds: float) -> Effect:
    """Answer requests of groups as a coordinator that still loads: COORDINATOR_LOAD_IN_PROGRESS;
    heartbeats without an error. Until so long after the rule was made, by the broker's clock.
    """
    return Loading(_positive("seconds", seconds))


def stale_generation() -> Effect:
    """Answer JoinGroup with the generation before, so that the member's next request is refused
    with ILLEGAL_GENERATION.
    """
    return StaleGeneration()


# -- time and order --------------------------------------------------------------------------------


def delay(seconds: float) -> Effect:
    """Handle the request so much later; real time."""
    return Delay(_positive("seconds", seconds))


def delay_answer(seconds: float) -> Effect:
    """Handle the request at once, and answer it so much later; real time."""
    return DelayAnswer(_positive("seconds", seconds))


def hold_joins() -> Effect:
    """Keep JoinGroups until the rule is removed, then handle them in order: the rebalance does not
    complete. Sessions and timeouts of the group run on.
    """
    return HoldJoins()


def lose_plan() -> Effect:
    """Never handle the leader's SyncGroup with the assignments: the other members wait for it."""
    return LosePlan()


# -- connections -----------------------------------------------------------------------------------


def drop(*, handled: bool = False) -> Effect:
    """Never answer; the request is lost, or with `handled=True` its answer is. What the client
    sends later on the connection waits behind it, as behind a request that hangs in a broker.
    """
    return Drop(arguments.flag(handled, "handled="))


def close(*, handled: bool = False) -> Effect:
    """Close the connection instead of handling the request; with `handled=True` instead of
    answering it.
    """
    return Close(arguments.flag(handled, "handled="))


def half_open() -> Effect:
    """Read and answer nothing any more on the connection, which stays open: as a machine that is
    gone. The broker does not notice when the client closes.
    """
    return HalfOpen()


def truncated(keep: float = 0.5) -> Effect:
    """Send this part of the answer's bytes, then close the connection."""
    if not 0 <= arguments.number(keep, "keep=") < 1:
        raise WrongArgument(f"keep={keep} is not a part: give 0 to 1")
    return Truncated(keep)


def damaged(seed: int = 0, count: int = 3) -> Effect:
    """Change so many bytes of the answer, behind its size and correlation id; which ones, the seed
    decides.
    """
    arguments.whole(seed, "seed=")
    return Damaged(seed, arguments.whole(count, "count=", 1, MOST))


def slow_reading(bytes_per_s: int) -> Effect:
    """Read what the client sends after the request at this rate, until it disconnects. The first
    request on a connection is mostly ApiVersions.
    """
    return SlowReading(arguments.whole(bytes_per_s, "bytes_per_s=", 1, MOST))


# -- the process and its disk ----------------------------------------------------------------------


def crash_before_durable() -> Effect:
    """End the broker as by `kill -9` when it gets the request: nothing is written or answered."""
    return Crash(when_durable=False)


def crash_when_durable() -> Effect:
    """End the broker as by `kill -9` when what the request has written is durable, before the
    answer leaves.
    """
    return Crash(when_durable=True)


def disk_full() -> Effect:
    """Fail everything that would grow a file, until the rule is removed: then groups are loaded
    again, and `remove` waits for that. It takes no conditions, and fires with each call that fails.
    """
    return DiskFull()


def _positive(name: str, value: float) -> Any:
    if arguments.number(value, f"{name}=") <= 0:
        raise WrongArgument(f"{name}={value}: must be more than 0")
    if value > MOST:
        raise WrongArgument(f"{name}={value}: must be {MOST} or less")
    return value
