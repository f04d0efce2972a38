"""Situations in which a member goes: not polled, gone, leaving, removed."""

from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.play import KAFKA_PYTHON, LONG_MS, POLL_MS, SESSION_MS, Play
from tests.truth.situations import situation

_STALL_S = POLL_MS / 1000 + 4


# -- not polled ------------------------------------------------------------------------------------


@situation(
    "the poll loop is too slow",
    *(KAFKA_PYTHON, CONFLUENT, AIOKAFKA),
    expected="""
        member_removed who=beta by=beta cause=member_left likely=max_poll_exceeded
        rebalance_started who=beta cause=member_left likely=max_poll_exceeded
    """,
)
@situation(
    "the poll loop is too slow",
    JAVA,
    expected="""
        member_removed who=beta by=beta cause=member_left likely=max_poll_exceeded
            'reason=consumer poll timeout has expired.'
        rebalance_started who=beta cause=member_left likely=max_poll_exceeded
    """,
)
def _slow_poll(play: Play) -> None:
    alpha, beta = play.settled("alpha", "beta", poll_ms=POLL_MS)
    play.consumed(alpha, beta)
    play.now()
    beta.tell("stall", seconds=_STALL_S)


@situation(
    "the poll loop is too slow during a rebalance",
    CONFLUENT,  # stays until the time is up: it waits for the poll that gives partitions back
    expected="""
        rebalance_started who=gamma cause=member_joined
        member_removed who=beta by=beta cause=join_timeout likely=slow_member
        rebalance_joined ended_by=timeout missing=beta:removed
    """,
)
@situation(
    "the poll loop is too slow during a rebalance",
    *(KAFKA_PYTHON, JAVA),
    expected="""
        rebalance_started who=gamma cause=member_joined
        member_removed who=beta by=beta cause=member_left likely=max_poll_exceeded
        rebalance_cause_added who=beta cause=member_left likely=max_poll_exceeded
        rebalance_joined ended_by=all_joined missing=none
    """,
)
def _slow_poll_in_round(play: Play) -> None:
    alpha, beta = play.settled("alpha", "beta", poll_ms=POLL_MS)
    play.consumed(alpha, beta)
    play.now()
    beta.tell("stall", seconds=_STALL_S)
    play.join("gamma", poll_ms=POLL_MS)


@situation(
    "a member that was not polled and never committed comes back",
    *(KAFKA_PYTHON, CONFLUENT),
    expected="""
        member_removed who=beta by=beta cause=member_left likely=null reason=null
        member_joined who=beta
        rebalance_started who=beta cause=member_joined likely=max_poll_exceeded
            evidence.same_connection=true
    """,
)
@situation(
    "a member that was not polled and never committed comes back",
    JAVA,
    expected="""
        rebalance_started who=beta cause=member_left likely=max_poll_exceeded
        member_joined who=beta
        rebalance_started who=beta cause=member_joined likely=max_poll_exceeded
            evidence.same_connection=true
    """,
)
def _back_to_poll(play: Play) -> None:
    _, beta = play.settled("alpha", "beta", poll_ms=POLL_MS)
    play.now()
    beta.tell("stall", seconds=_STALL_S)


@situation(
    "the only member was not polled, and comes back",
    CONFLUENT,
    expected="""
        group_emptied who=alpha cause=member_left likely=null
        rebalance_started who=alpha cause=member_joined likely=max_poll_exceeded from_state=Empty
            evidence.same_connection=true
    """,
)
def _alone_back_to_poll(play: Play) -> None:
    [alpha] = play.settled("alpha", poll_ms=POLL_MS)
    play.now()
    alpha.tell("stall", seconds=_STALL_S)


@situation(
    "the event loop is blocked",
    AIOKAFKA,
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
            evidence.connection=open
        rebalance_started who=beta cause=session_expired likely=crash_or_network
    """,
)
def _blocked(play: Play) -> None:
    _, beta = play.settled("alpha", "beta")
    play.now()
    beta.tell("block", seconds=SESSION_MS / 1000 + 3)


# -- gone ------------------------------------------------------------------------------------------


@situation(
    "killed with kill -9",
    *(KAFKA_PYTHON, CONFLUENT, AIOKAFKA, JAVA, FRANZ_GO),
    expected="""
        member_removed who=beta by=beta cause=session_expired likely=crash_or_network
            evidence.connection=closed evidence.session_timeout_ms=3s
        rebalance_started who=beta cause=session_expired likely=crash_or_network members=1
    """,
)
def _killed(play: Play) -> None:
    _, beta = play.settled("alpha", "beta")
    play.now()
    beta.kill()


@situation(
    "the only member is killed",
    CONFLUENT,
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
        group_emptied who=beta cause=session_expired
    """,
)
def _killed_alone(play: Play) -> None:
    [beta] = play.settled("beta")
    play.now()
    beta.kill()


@situation(
    "stopped with SIGSTOP for longer than its session",
    *(KAFKA_PYTHON, CONFLUENT, JAVA),
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
            evidence.connection=open
        rebalance_started who=beta cause=session_expired likely=crash_or_network
    """,
)
def _stopped(play: Play) -> None:
    _, beta = play.settled("alpha", "beta")
    play.now()
    beta.stop()


@situation(
    "the connection is cut",
    *(KAFKA_PYTHON, CONFLUENT),
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
            evidence.connection=open
        group_emptied who=beta cause=session_expired
    """,
    through_cable=True,
)
def _cut(play: Play) -> None:
    play.settled("beta")
    play.now()
    assert play.cable is not None
    play.cable.cut()


@situation(
    "a static member is gone for good",
    CONFLUENT,
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
        rebalance_started who=beta cause=session_expired likely=crash_or_network
    """,
)
def _static_gone(play: Play) -> None:
    _, beta = play.settled("alpha", "beta", static=True)
    play.now()
    beta.kill()


@situation(
    "a static member is closed, does not leave, and does not come back",
    *(KAFKA_PYTHON, CONFLUENT, JAVA, FRANZ_GO),
    expected="""
        member_removed who=beta cause=session_expired likely=crash_or_network
            evidence.connection=closed
        rebalance_started who=beta cause=session_expired
    """,
)
def _static_closed(play: Play) -> None:
    _, beta = play.settled("alpha", "beta", static=True)
    play.now()
    beta.ask("close")


# -- leaving ---------------------------------------------------------------------------------------


@situation(
    "closed",
    *(KAFKA_PYTHON, CONFLUENT, AIOKAFKA),
    expected="""
        member_removed who=beta by=beta cause=member_left likely=null reason=null
        rebalance_started who=beta cause=member_left likely=null
    """,
)
@situation(
    "closed",
    JAVA,
    expected="""
        member_removed who=beta by=beta cause=member_left likely=shutdown
            'reason=the consumer is being closed'
        rebalance_started who=beta cause=member_left likely=shutdown
    """,
)
@situation(
    "closed",
    FRANZ_GO,
    expected="""
        member_removed who=beta by=beta cause=member_left likely=shutdown
            'reason=client leaving group per normal operation'
        rebalance_started who=beta cause=member_left likely=shutdown
    """,
)
def _closed(play: Play) -> None:
    _, beta = play.settled("alpha", "beta")
    play.now()
    beta.ask("close")


@situation(
    "unsubscribed",
    JAVA,
    expected="""
        rebalance_started who=beta cause=member_left likely=shutdown
    """,
)
def _unsubscribed(play: Play) -> None:
    _, beta = play.settled("alpha", "beta")
    play.now()
    beta.tell("unsubscribe")


@situation(
    "an administrator removes a static member",
    KAFKA_PYTHON,
    expected=f"""
        member_removed who=beta by={KAFKA_PYTHON.name} cause=member_removed_by_admin
            likely=null 'reason=a test'
        rebalance_started who={KAFKA_PYTHON.name} cause=member_removed_by_admin members=1
    """,
)
def _removed(play: Play) -> None:
    play.settled("alpha", "beta", static=True, session_ms=LONG_MS)
    play.now()
    play.admin.ask("remove_instances", group=play.group.name, instance_ids=["beta"])
