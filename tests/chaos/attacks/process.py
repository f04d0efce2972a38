"""What is done to the process: a log that nobody reads, and a stop in the middle of everything."""

import contextlib
import os
import signal
import time

from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from tests.chaos.attacks.support import SETTLE_SETTINGS, names, roster
from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.chaos.wire import Client, Stream, dial, pump
from tests.support.requests import heartbeat, join_request
from tests.support.wire import frame

FAMILY = "process"
STOPPED_SECONDS = 5.0


def log_unread(target: Target) -> Steps:
    """More lines than a pipe holds (64 KiB): refused bytes, groups that come and go."""
    yield
    for _ in range(1_000):
        with contextlib.suppress(OSError):
            sock = dial(target.kafka)
            sock.sendall(b"\xff" * 100)
            sock.close()
    client = Client(target.kafka, timeout=10.0)
    for group in names("g", 300):
        joined = client.call(3, join_request(group))
        leaving = LeaveGroupRequest(group_id=group, member_id=joined.member_id)
        client.call(2, leaving)
    return "1,000 bad connections, 300 groups"


def stopped(target: Target) -> Steps:
    """Members with sessions of two seconds go on beating while the process is stopped for five."""
    members = roster(target, "beating", 40, session_ms=2_000)
    generation = 1

    def beat() -> list[Stream]:
        return [
            Stream(client.socket, frame(3, heartbeat(who, generation, "beating")), 1)
            for client, who in members
        ]

    yield
    check(pump(beat(), 5.0), "not everybody could beat before")
    os.kill(target.pid, signal.SIGSTOP)
    try:
        waiting: list[Stream] = []
        for _ in range(5):
            waiting += (sent := beat())
            for stream in sent:
                stream.write()
            time.sleep(STOPPED_SECONDS / 5)
    finally:
        os.kill(target.pid, signal.SIGCONT)
    # Five answers come on each connection; the last of its streams may read them all.
    errors: list[int] = []
    last = [
        Stream(client.socket, b"", 5, lambda body: errors.append(int.from_bytes(body[-2:], "big")))
        for client, _ in members
    ]
    check(pump(last, 10.0), "not all beats were answered")
    removed = sum(error != 0 for error in errors)
    check(removed == 0, f"{removed} of {len(errors)} beats refused afterwards")
    time.sleep(1.0)
    return f"{len(errors)} beats answered, nobody removed"


ATTACKS = (
    Attack(
        "log-unread",
        FAMILY,
        "standard error is a pipe that nobody reads; 1,000 bad connections, 300 groups",
        log_unread,
        log_unread=True,
    ),
    Attack(
        "stopped",
        FAMILY,
        "SIGSTOP for 5 s; 40 members with sessions of 2 s beat meanwhile",
        stopped,
        settings=SETTLE_SETTINGS,
        limits=Limits(stall_ms=STOPPED_SECONDS * 1000 + 500),
    ),
)
