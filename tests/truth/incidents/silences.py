"""Incidents of members that are slow, paused, cut off, or have nothing to do."""

import time
from typing import Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.clients.process import Worker, wait_until
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.stage import LONG_MS, POLL_MS, SESSION_MS, Stage
from tests.truth.incidents.truths import CALM, EVERY, incident, truth
from tests.truth.play import KAFKA_PYTHON

_STALL_S: Final = POLL_MS / 1000 + 3
_MORE: Final = r"add members or partitions"
"""Advice against lag that helps only members who read."""
_POLLERS: Final = (KAFKA_PYTHON, CONFLUENT, JAVA)


@incident(
    "the poll loop takes too long",
    *_POLLERS,
    source="confluentinc/confluent-kafka-python#552; navikt/rapids-and-rivers#21",
    truth=truth(
        "beta did not call poll for max.poll.interval.ms; its client left, and came back.",
        "member_left/max_poll_exceeded",
        "member_joined member_joined/max_poll_exceeded",
        r"crash|was restarted|such a restart",
        CALM,
    ),
)
def _slow_poll(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", poll_ms=POLL_MS)
    _polls_late(stage, alpha, beta)


def _polls_late(stage: Stage, alpha: Worker, beta: Worker) -> None:
    """Let beta poll again after the time, and both share the topic."""
    beta.tell("stall", seconds=_STALL_S)
    time.sleep(_STALL_S)
    if beta.library is CONFLUENT:  # the error of that poll ends the worker's loop
        wait_until(lambda: beta.failed is not None, [beta])
        beta.failed = None
        beta.tell("poll_again")
    stage.settle(alpha, beta)


@incident(
    "the poll loop takes too long, again and again",
    *_POLLERS,
    source="fede1024/rust-rdkafka#433",
    truth=truth(
        "beta did not call poll in time, three times.",
        "member_left/max_poll_exceeded",
        "member_joined member_joined/max_poll_exceeded",
        r"crash|was restarted|such a restart|members were restarted",
        CALM,
    ),
)
def _slow_polls(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", poll_ms=POLL_MS)
    for _ in range(3):
        _polls_late(stage, alpha, beta)
        stage.consumed(alpha, beta)


@incident(
    "a long pause of garbage collection",
    *EVERY,
    source="pauses of seconds that end the session; akka/alpakka-kafka#1408",
    truth=truth(
        "beta's process stood still for longer than its session, and went on.",
        "session_expired/crash_or_network",
        "member_joined member_joined/* requests_refused/*",
        r"restart(ed)?\b.{0,40}(after|one after)",
        CALM,
    ),
)
def _pause(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.stop()
    stage.group.settle(alpha)
    beta.go_on()
    stage.settle(alpha, beta)


@incident(
    "paused for less than the session",
    *EVERY,
    source="short pauses, which change nothing",
    truth=truth(
        "beta's process stood still for 1.5 s of a session of 6 s: nothing happened.",
        "",
        "",
        r"crash|paused",
    ),
)
def _short_pause(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta", session_ms=6_000)
    beta.stop()
    time.sleep(1.5)
    beta.go_on()
    time.sleep(5)


@incident(
    "network cut, connections stay open",
    *EVERY,
    source="akka/alpakka-kafka#1408: a firewall that drops what is idle",
    truth=truth(
        "Packets of all members were dropped from one moment on.",
        "session_expired/crash_or_network",
        "group_emptied/* member_joined member_joined/* requests_refused/*",
        CALM,
        r"[Ll]ook for a crash or a kill",
    ),
    cable=True,
)
def _cut(stage: Stage) -> None:
    stage.settled("alpha", "beta")
    assert stage.cable is not None
    stage.cable.cut()
    time.sleep(SESSION_MS / 1000 + 3)
    stage.cable.mend()  # the command asks through it, too


@incident(
    "commits of a zombie",
    KAFKA_PYTHON,
    CONFLUENT,
    JAVA,
    source="dpkp/kafka-python#2179; akka/alpakka-kafka#750",
    truth=truth(
        "beta was stopped for longer than its session, and committed when it went on.",
        "session_expired/crash_or_network",
        "member_joined member_joined/* requests_refused/*",
        r"duel|members were restarted",
        CALM,
    ),
)
def _zombie(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.stop()
    stage.group.settle(alpha)
    beta.tell("commit")
    beta.go_on()
    time.sleep(5)


@incident(
    "a member is too slow to give its partitions back",
    AIOKAFKA,
    source="bsm/sarama-cluster#281: a handler that does not end in a rebalance",
    truth=truth(
        "gamma joined; beta's callback took longer than the rebalance timeout.",
        "member_joined join_timeout/slow_member",
        "requests_refused/* member_joined/*",
        r"crash",
    ),
)
def _dawdles(stage: Stage) -> None:
    how = {"rebalance__timeout__ms": POLL_MS, "session_ms": 10_000}
    _, beta = stage.settled("alpha", "beta", **how)
    beta.ask("dawdle", seconds=_STALL_S + 4)
    stage.join("gamma", **how)
    time.sleep(_STALL_S + 8)


@incident(
    "a process stops while others rebalance",
    AIOKAFKA,
    KAFKA_PYTHON,
    source="apache/kafka#9128: a member that holds the round up",
    truth=truth(
        "gamma joined while beta's process stood still.",
        "member_joined join_timeout/crash_or_network|session_expired/crash_or_network",
        "requests_refused/* member_joined/*",
        r"max\.poll\.records",
    ),
)
def _stopped_in_round(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta", session_ms=6_000)
    beta.stop()
    stage.join("gamma", session_ms=6_000)
    time.sleep(10)


@incident(
    "unsubscribed and subscribed again",
    *_POLLERS,
    source="spring-projects/spring-kafka#742: consumers that are stopped to pause them",
    truth=truth(
        "beta's application unsubscribed and subscribed again, in the same process.",
        "member_left|member_left/shutdown member_joined",
        "member_joined/*",
        r"(was|were) restarted|such a restart|crash",
        r"max\.poll",
    ),
)
def _unsubscribed(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.ask("unsubscribe")
    stage.group.settle(alpha)
    beta.ask("resubscribe", topics=[stage.group.topic])
    stage.group.settle(alpha, beta)


# -- hours -----------------------------------------------------------------------------------------


@incident(
    "the group is gone for good, and records arrive",
    CONFLUENT,
    KAFKA_PYTHON,
    FRANZ_GO,
    source="review of the analysis, A1",
    truth=truth(
        "All members were killed; records arrived for two more hours, which nobody reads.",
        "session_expired/crash_or_network",
        "group_emptied/*",
        CALM,
        _MORE,
        finds=r"(?i)no members?\b|nobody|is gone|is down|not read|unread",
    ),
    bench=True,
)
def _gone(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=45_000)
    for _ in range(10):
        stage.advance(120)
        stage.consumed(*members)
    for each in members:
        each.kill()
    for _ in range(8):
        stage.goes_on(900)


@incident(
    "the group hangs as a whole",
    CONFLUENT,
    KAFKA_PYTHON,
    FRANZ_GO,
    source="review of the analysis, A1; confluentinc/kafka-connect-hdfs#324: lag that rises",
    truth=truth(
        "Both members send heartbeats, and read and commit nothing for two hours while "
        "records arrive.",
        "",
        "",
        r"not stable",
        _MORE,
        finds=r"(?i)hang|commit(s|ted)? nothing|(nobody|no member).{,60} commit|stuck",
    ),
    bench=True,
)
def _hangs(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=45_000)
    for _ in range(10):
        stage.advance(120)
        stage.consumed(*members)
    for _ in range(8):
        stage.goes_on(900)


@incident(
    "a member has nothing to read",
    CONFLUENT,
    KAFKA_PYTHON,
    FRANZ_GO,
    source="review of the analysis, B2",
    truth=truth(
        "Two healthy members; only the partitions of one get records for an hour.",
        "",
        "",
        r"cannot process|thread that hangs|[Cc]ommitted nothing",
        r"\[(critical|high)\]",
    ),
    bench=True,
)
def _idle(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", session_ms=45_000)
    assert alpha.assigned is not None
    numbers = sorted(number for _, number in alpha.assigned)
    for _ in range(20):
        records = [(number, "x", None) for number in numbers]
        stage.admin.ask("produce", topic=stage.group.topic, records=records)
        time.sleep(0.3)
        alpha.ask("commit")
        stage.advance(180)
    assert beta.assigned


@incident(
    "a partition is consumed slowly",
    CONFLUENT,
    KAFKA_PYTHON,
    source="confluentinc/kafka-connect-hdfs#324: one partition behind the others",
    truth=truth(
        "beta commits a quarter of what arrives, for an hour.",
        "",
        "",
        r"crash|(?<!sessions )restarted|hangs",
    ),
    bench=True,
)
def _slow(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=LONG_MS)
    for number in range(16):
        stage.group.await_records(stage.group.send(1), *members)
        members[0].ask("commit")
        if number % 4 == 0:
            members[1].ask("commit")
        stage.advance(225)
