"""Situations in which members come, come back, or keep a round waiting."""

import time

from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.support.consumer import Membership, subscription
from tests.truth.foreign import BY_HAND, JAVA
from tests.truth.play import KAFKA_PYTHON, LONG_MS, POLL_MS, Play
from tests.truth.situations import situation

_STALL_S = POLL_MS / 1000 + 4


# -- coming, and coming back -----------------------------------------------------------------------


@situation(
    "many members start at once",
    CONFLUENT,
    expected="""
        rebalance_started cause=member_joined likely=null
        all rebalance_started cause=member_joined
        all rebalance_cause_added cause=member_joined
    """,
)
def _storm(play: Play) -> None:
    alpha = play.settled("alpha")
    play.now()
    play.group.settle(*alpha, *(play.join(f"more-{number}") for number in range(5)))


@situation(
    "static members are restarted one after the other",
    CONFLUENT,
    expected="""
        member_replaced who=alpha quick=true likely=null
        member_replaced who=beta quick=true likely=rolling_restart
        member_replaced who=gamma quick=true likely=rolling_restart
        no rebalance_started
    """,
)
def _rolling_static(play: Play) -> None:
    names = ("alpha", "beta", "gamma")
    members = play.settled(*names, static=True, session_ms=LONG_MS)
    play.now()
    for place, name in enumerate(names):
        members[place].kill()
        members[place] = play.join(name, static=True, session_ms=LONG_MS)
        play.group.settle(*members)


@situation(
    "members are restarted one after the other",
    CONFLUENT,
    expected="""
        rebalance_started who=alpha cause=member_left likely=null
        rebalance_started who=alpha cause=member_joined likely=null
        rebalance_started who=beta cause=member_left
        rebalance_started who=beta cause=member_joined likely=rolling_restart
    """,
)
def _rolling(play: Play) -> None:
    names = ("alpha", "beta", "gamma")
    members = play.settled(*names, session_ms=LONG_MS)
    play.now()
    for place, name in enumerate(names[:2]):
        others = [each for each in members if each is not members[place]]
        members[place].ask("close")
        play.group.settle(*others)
        members[place] = play.join(name, session_ms=LONG_MS)
        play.group.settle(*members)


@situation(
    "two processes have one instance id, and the older is fenced",
    *(KAFKA_PYTHON, CONFLUENT),
    expected="""
        member_replaced who=beta quick=true likely=null
        member_fenced who=beta api=Heartbeat likely=null
    """,
)
def _twins(play: Play) -> None:
    play.settled("alpha", "beta", static=True, session_ms=LONG_MS)
    play.now()
    play.join("beta", static=True, session_ms=LONG_MS)


@situation(
    "two processes have one instance id, and both go on",
    AIOKAFKA,
    expected="""
        member_replaced who=beta
        member_replaced who=beta likely=duel
    """,
)
def _duel(play: Play) -> None:
    play.settled("beta", static=True, session_ms=LONG_MS)
    play.now()
    play.join("beta", static=True, session_ms=LONG_MS)


# -- rounds ----------------------------------------------------------------------------------------


@situation(
    "a member subscribes to another topic",
    *(KAFKA_PYTHON, CONFLUENT, AIOKAFKA, JAVA),
    expected="""
        rebalance_started who=alpha cause=subscription_changed likely=null from_state=Stable
    """,
)
def _subscribes(play: Play) -> None:
    other = play.group.topic + "-other"
    play.admin.ask("create_topic", topic=other, partitions=1)
    alpha, _ = play.settled("alpha", "beta")
    play.now()
    alpha.tell("subscribe", topics=[other])


@situation(
    "a cooperative consumer gives partitions back",
    CONFLUENT,
    expected="""
        rebalance_started who=beta cause=member_joined
        rebalance_started who=alpha cause=member_rejoined evidence.revoked=3
    """,
)
def _cooperative(play: Play) -> None:
    how = {"partition__assignment__strategy": "cooperative-sticky"}
    play.settled("alpha", **how)
    play.now()
    play.join("beta", **how)


@situation(
    "a member takes too long to give its partitions back",
    AIOKAFKA,
    expected="""
        rebalance_started who=gamma cause=member_joined
        member_removed who=beta cause=join_timeout likely=slow_member
            evidence.rebalance_timeout_ms=4s
        rebalance_joined ended_by=timeout missing=beta:removed
    """,
)
def _slow_joiner(play: Play) -> None:
    how = {"rebalance__timeout__ms": POLL_MS, "session_ms": 10_000}
    _, beta = play.settled("alpha", "beta", **how)
    beta.ask("dawdle", seconds=_STALL_S + 4)
    play.now()
    play.join("gamma", **how)


@situation(
    "a stopped process does not join in time",
    AIOKAFKA,
    expected="""
        rebalance_started who=gamma cause=member_joined
        member_removed who=beta cause=join_timeout likely=crash_or_network
        rebalance_joined ended_by=timeout missing=beta:removed
    """,
)
def _stopped_joiner(play: Play) -> None:
    how = {"rebalance__timeout__ms": POLL_MS, "session_ms": 10_000}
    _, beta = play.settled("alpha", "beta", **how)
    play.now()
    beta.stop()
    play.join("gamma", **how)


@situation(
    "a leader never sends the assignment",
    BY_HAND,
    expected="""
        member_removed who=tester cause=sync_timeout likely=crash_or_network
        rebalance_started who=tester cause=sync_timeout from_state=CompletingRebalance
    """,
)
def _leader_never_syncs(play: Play) -> None:
    with play.client() as client:
        client.call(3, _join(play, session_ms=LONG_MS, rebalance_ms=4_000))
        play.now()
        time.sleep(5)


@situation(
    "an id is handed out and never used",
    BY_HAND,
    expected="""
        member_removed who=tester cause=pending_member_expired
        no rebalance_started
    """,
)
def _pending(play: Play) -> None:
    play.now()
    with play.client() as client:
        assert client.call(5, _join(play, session_ms=1_000, rebalance_ms=4_000)).error_code == 79


def _join(play: Play, session_ms: int, rebalance_ms: int) -> JoinGroupRequest:
    data = subscription(play.group.topic)
    member = Membership(play.group.name, None, session_ms, rebalance_ms, metadata=data)
    return member.join_request()
