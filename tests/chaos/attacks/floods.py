"""Requests that are refused, without end: what they may leave on the disk and in memory is nothing.

Group ids have 28 characters, as many have, or 30,000, which is nearly as long as they can be.
"""

import shutil
import time
from pathlib import Path

from tests.chaos.attacks.support import deliver
from tests.chaos.target import MIB, Attack, Limits, Steps, Target, check
from tests.support.requests import heartbeat, join_request
from tests.support.wire import frame

FAMILY = "floods"
JOURNALS_MIB = 2 * 64
LEFT_MIB = 64
"""What the disk has beside the journals."""
LONG = 30_000
AT_ONCE = 200
"""Requests in one go on a connection."""
BACK_SECONDS = 25.0
"""For memory to come back."""


def _flood(target: Target, prefix: str, count: int, characters: int) -> None:
    """So many JoinGroups without a member id, each for a new group."""
    for first in range(0, count, AT_ONCE):
        ids = [f"{prefix}{number}".ljust(characters, "x") for number in range(first, count)]
        frames = [
            frame(5, join_request(group, session_timeout_ms=1_000)) for group in ids[:AT_ONCE]
        ]
        deliver(target, b"".join(frames), len(frames))


def _heartbeats(target: Target, count: int) -> None:
    """For groups that do not exist."""
    ids = [f"h{number}".ljust(3_500, "x") for number in range(count)]
    deliver(target, b"".join(frame(3, heartbeat("m", 1, group)) for group in ids), count)


def refused_joins(target: Target) -> Steps:
    """Others commit meanwhile, and afterwards: the bystander complains if one is refused."""
    yield
    before = shutil.disk_usage(target.data_dir).free
    _flood(target, "short", 4_000, 28)
    _flood(target, "long", 1_000, LONG)
    _heartbeats(target, 4_000)
    time.sleep(3.0)  # sessions end
    grown = (before - shutil.disk_usage(target.data_dir).free) / MIB
    check(grown < LEFT_MIB / 4, f"{grown:.0f} MiB of the disk are gone")
    return f"{grown:.1f} MiB of disk"


def _resident(target: Target) -> float:
    """MiB of memory that the server has."""
    status = Path(f"/proc/{target.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def dead_groups(target: Target) -> Steps:
    _flood(target, "warm", 2 * AT_ONCE, LONG)
    time.sleep(4.0)
    yield
    before = _resident(target)
    _flood(target, "g", 4_000, LONG)
    most, end = before * 1.1, time.monotonic() + BACK_SECONDS
    while (after := _resident(target)) > most and time.monotonic() < end:
        time.sleep(0.5)
    check(after <= most, f"{before:.0f} MiB before, {after:.0f} when the groups are gone")
    return f"{before:.0f}, then {after:.0f} MiB"


ATTACKS = [
    Attack(
        "refused-join-flood",
        FAMILY,
        "9,000 refused JoinGroups and Heartbeats of new groups; 64 MiB of disk left",
        refused_joins,
        # Without the bound that stops events on a full disk: nothing may be written that fills it.
        settings={"group.events.min.free.bytes": "0"},
        disk_mib=JOURNALS_MIB + LEFT_MIB,
        limits=Limits(seconds=240),
    ),
    Attack(
        "dead-groups-memory",
        FAMILY,
        "4,000 groups with ids of 30,000 characters that are asked for, and gone",
        dead_groups,
        settings={"offsets.retention.check.interval.ms": "1000"},
        limits=Limits(seconds=240),
    ),
]
