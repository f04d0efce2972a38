"""Very many at once: what is decided about all of them must not stop the others."""

import time

from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.chaos.wire import Stream, dial, pump
from tests.support.requests import join_request
from tests.support.wire import frame

FAMILY = "sizes"
MEMBERS = 10_000
CONNECTIONS = 50
REBALANCE_MS = 5_000


def ten_thousand_time_out(target: Target) -> Steps:
    """They join one group and hang up. The first phase is completed, and the second times out."""
    request = join_request("crowd", session_timeout_ms=60_000, rebalance_timeout_ms=REBALANCE_MS)
    joining = frame(3, request)
    yield
    joined = 0
    for _ in range(MEMBERS // CONNECTIONS):
        streams = [Stream(dial(target.kafka), joining) for _ in range(CONNECTIONS)]
        check(pump(streams, 30.0), "not all were sent")
        joined += len(streams)
        for stream in streams:
            stream.socket.close()
    time.sleep(3 * REBALANCE_MS / 1000)
    return f"{joined} joined"


ATTACKS = (
    Attack(
        "ten-thousand-time-out",
        FAMILY,
        "10,000 join one group and hang up",
        ten_thousand_time_out,
        limits=Limits(growth_mib=128),  # they are members until the time is up
    ),
)
