"""The faults that `Broker.fault` can inject into matching requests:

    broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="billing", times=2)

docs/testing-faults.md shows how clients react to each of them.
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
    """Crash the broker as by `kill -9` on receipt of the request, before anything is written."""
    return crashes.Crash()


def crash_when_durable() -> Effect:
    """Crash the broker as by `kill -9` after the request's writes are durable, before the response
    is sent.
    """
    return crashes.Crash(handled=True)
