"""What can happen to the requests that match a fault rule:

    broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="billing", times=2)

docs/testing-faults.md shows what clients do.
"""

from groupkeeper.testing.faults import answers, crashes, streams
from groupkeeper.testing.faults.rules import Effect

error = answers.Error
throttle = streams.Throttle
stale_metadata = answers.StaleMetadata
wrong_coordinator = answers.WrongCoordinator
loading = answers.Loading
stale_generation = answers.StaleGeneration

delay = streams.Delay
delay_answer = streams.DelayAnswer
hold_joins = streams.HoldJoins
lose_plan = streams.LosePlan

drop = streams.Drop
close = streams.Close
half_open = streams.HalfOpen
truncated = streams.Truncated
damaged = streams.Damaged
slow_reading = streams.SlowReading

disk_full = crashes.DiskFull


def crash_before_durable() -> Effect:
    """End the broker as by `kill -9` when it gets the request: nothing is written or answered."""
    return crashes.Crash(when_durable=False)


def crash_when_durable() -> Effect:
    """End the broker as by `kill -9` when what the request has written is durable, before the
    answer leaves.
    """
    return crashes.Crash(when_durable=True)
