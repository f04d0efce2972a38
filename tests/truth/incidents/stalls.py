"""Incidents of the coordinator itself: its disk or process stands still, or it is away."""

import time
from typing import Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.stage import LONG_MS, Stage
from tests.truth.incidents.truths import EVERY, incident, truth
from tests.truth.play import KAFKA_PYTHON

_STALLED: Final = """
    member_joined/coordinator_stalled session_expired/coordinator_stalled
    member_left/coordinator_stalled leader_rejoined/coordinator_stalled
    member_rejoined/coordinator_stalled join_timeout/coordinator_stalled
    sync_timeout/coordinator_stalled pending_member_expired/coordinator_stalled
    requests_refused/coordinator_stalled static_member_returned_unready/coordinator_stalled
"""
_BLAME: Final = (
    r"(?<!no )session\.timeout\.ms=\d+ ",
    r"initial\.rebalance\.delay",
    r"process stood still, or its network",
    r"paused or cut off",
    r"It was (re)?started",
    r"Look for a crash",
    r"if a member was added",
    r"second rebalance of a cooperative|only 0 partitions that moved",
)
"""What blames clients that did nothing wrong, or has them changed."""
_AWAY: Final = f"""{_STALLED} member_joined session_expired rejoined_after_load/* leader_rejoined
    member_left member_rejoined pending_member_expired requests_refused/*"""
_FOUR: Final = (KAFKA_PYTHON, CONFLUENT, JAVA, FRANZ_GO)


def _settles(stage: Stage, seconds: float = 12.0) -> None:
    """Give the clients time for whatever they do after it."""
    time.sleep(seconds)


# -- stalls ----------------------------------------------------------------------------------------

_DISK = truth(
    """The coordinator's disk hung for 15 s, so nobody was answered. Clients that gave up did so
    for want of an answer.""",
    "coordinator_stalled",
    _STALLED,
    *_BLAME,
)
_DISK_SOURCE = "review of the core, C2; dpkp/kafka-python#2149 tells of the other side"


@incident("disk hangs 15 s, sessions of 6 s", *_FOUR, AIOKAFKA, source=_DISK_SOURCE, truth=_DISK)
def _disk_6(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=6_000)
    stage.disk_hangs(15, *members)
    _settles(stage)


@incident("disk hangs 15 s, sessions of 10 s", *_FOUR, source=_DISK_SOURCE, truth=_DISK)
def _disk_10(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=10_000)
    stage.disk_hangs(15, *members)
    _settles(stage)


_STOPPED = truth(
    """The coordinator's process stood still for 20 s. Clients that gave up did so for want of an
    answer.""",
    "coordinator_stalled",
    _STALLED,
    *_BLAME,
)
_STOP_SOURCE = "review of the core, C3; akka/alpakka-kafka#1408"


@incident(
    "coordinator stopped 20 s, sessions of 6 s",
    *_FOUR,
    AIOKAFKA,
    source=_STOP_SOURCE,
    truth=_STOPPED,
)
def _stop_6(stage: Stage) -> None:
    stage.settled("alpha", "beta", session_ms=6_000)
    stage.stands_still(20)
    _settles(stage)


@incident("coordinator stopped 20 s, sessions of 10 s", *_FOUR, source=_STOP_SOURCE, truth=_STOPPED)
def _stop_10(stage: Stage) -> None:
    stage.settled("alpha", "beta", session_ms=10_000)
    stage.stands_still(20)
    _settles(stage)


@incident(
    "disk hangs shortly, several times",
    KAFKA_PYTHON,
    CONFLUENT,
    source="a disk that is slow every few minutes, as shared volumes are",
    truth=truth(
        "The disk hung for 2 s three times. Nobody lost a session of 10 s.",
        "",
        "coordinator_stalled",
        *_BLAME,
    ),
)
def _hiccups(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=10_000)
    for _ in range(3):
        stage.disk_hangs(2, *members)
        time.sleep(1)
    _settles(stage, 3)


@incident(
    "a member dies while the disk hangs",
    CONFLUENT,
    source="both at once, as where a machine runs consumers and brokers",
    truth=truth(
        "The disk hung for 8 s; in that time beta was killed. Only beta's end is beta's.",
        "session_expired/crash_or_network|session_expired/coordinator_stalled",
        f"coordinator_stalled {_STALLED}",
        r"initial\.rebalance\.delay",
    ),
)
def _dies_meanwhile(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta", session_ms=6_000)
    stage.server.flag.touch()
    time.sleep(2)
    beta.kill()
    time.sleep(6)
    stage.server.flag.unlink()
    _settles(stage)


@incident(
    "a member joins while the disk hangs",
    *_FOUR,
    AIOKAFKA,
    source="review of the core, C2: ids that expire before their answer has left",
    truth=truth(
        "gamma joined while the coordinator's disk hung for 8 s; all members went on.",
        "coordinator_stalled member_joined|member_joined/coordinator_stalled",
        f"member_joined {_STALLED}",
        r"did not join with it|ended in its first seconds|cannot reach",
        *_BLAME[2:6],
    ),
)
def _joins_meanwhile(stage: Stage) -> None:
    stage.settled("alpha", "beta", session_ms=6_000)
    stage.server.flag.touch()
    stage.join("gamma", session_ms=6_000)
    time.sleep(8)
    stage.server.flag.unlink()
    _settles(stage)


# -- away ------------------------------------------------------------------------------------------

_BACK_SOURCE = "confluentinc/confluent-kafka-python#173; dpkp/kafka-python#1310"


def _away(seconds: int) -> None:
    @incident(
        f"coordinator killed, back after {seconds} s",
        *EVERY,
        source=_BACK_SOURCE,
        truth=truth(
            f"The coordinator was away for {seconds} s. Nothing happened to the members.",
            "coordinator_loaded",
            _AWAY,
            *(each for each in _BLAME if "session" not in each),
        ),
    )
    def _play(stage: Stage) -> None:
        stage.settled("alpha", "beta", session_ms=6_000)
        stage.away(seconds)
        _settles(stage)


for _seconds in (3, 12, 30):
    _away(_seconds)


@incident(
    "coordinator restarted in order",
    *EVERY,
    source="confluentinc/librdkafka#2944: rolling update of brokers",
    truth=truth(
        "The coordinator was restarted in order, and all members stayed.",
        "coordinator_loaded",
        _AWAY,
        *_BLAME,
    ),
)
def _orderly(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=10_000)
    stage.away(1, orderly=True)
    _settles(stage, 8)
    stage.consumed(*members)


@incident(
    "coordinator restarted twice in a minute",
    KAFKA_PYTHON,
    CONFLUENT,
    JAVA,
    source="confluentinc/librdkafka#3396: elections one after the other",
    truth=truth(
        "The coordinator was killed twice, for 2 s each. Members stayed.",
        "coordinator_loaded",
        _AWAY,
        *_BLAME,
    ),
)
def _twice(stage: Stage) -> None:
    stage.settled("alpha", "beta", session_ms=10_000)
    for _ in range(2):
        stage.away(2)
        _settles(stage, 5)


@incident(
    "a member does not survive the restart of the coordinator",
    *EVERY,
    source="apache/kafka#9128 (KAFKA-7540): a dead member holds the group up after a shutdown",
    truth=truth(
        "Coordinator and beta were killed at the same time; only the coordinator came back.",
        "session_expired/crash_or_network|session_expired",
        "not_back/* coordinator_loaded rejoined_after_load/* requests_refused/* leader_rejoined"
        " leader_rejoined/coordinator_stalled",
        r"Nothing is wrong\.",
    ),
)
def _not_back(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta", session_ms=6_000)
    stage.server.kill()
    beta.kill()
    stage.server.start()
    _settles(stage)


@incident(
    "group.max.size is smaller after a restart",
    CONFLUENT,
    KAFKA_PYTHON,
    source="KIP-389 and its questions: a limit that is set below what runs",
    truth=truth(
        "An operator set group.max.size=1 and restarted the coordinator: one of two "
        "members was put out.",
        "group_shrunk",
        "coordinator_loaded member_joined rejoined_after_load/* requests_refused/* "
        "leader_rejoined/*",
        r"Nothing is wrong\.",
        r"crash|paused",
    ),
)
def _smaller(stage: Stage) -> None:
    stage.settled("alpha", "beta", session_ms=LONG_MS)
    stage.server.stop()
    stage.server.settings = {**stage.server.settings, "group.max.size": "1"}
    stage.server.start()
    _settles(stage, 8)
