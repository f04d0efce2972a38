"""Situations of the server and of administrators: restarts, deleted groups, reset offsets."""

import time

from tests.clients.libraries import CONFLUENT
from tests.truth.play import KAFKA_PYTHON, LONG_MS, Play
from tests.truth.situations import situation

# -- the server ------------------------------------------------------------------------------------


@situation(
    "the server is killed, and all members are back",
    *(KAFKA_PYTHON, CONFLUENT),
    expected="""
        coordinator_loaded groups=1 members=2
        no rebalance_started
        no not_back
    """,
)
def _restarted(play: Play) -> None:
    members = play.settled("alpha", "beta", session_ms=6_000)
    play.now()
    play.server.kill()
    play.server.start()
    play.group.change_observer()
    play.admin = play.group.observer
    play.consumed(*members)
    time.sleep(6)


@situation(
    "the server is killed, and a member is not back",
    CONFLUENT,
    expected="""
        coordinator_loaded groups=1 members=2
        member_removed who=beta cause=session_expired likely=null
        not_back absent=beta
        rebalance_started who=beta cause=session_expired
    """,
)
def _not_back(play: Play) -> None:
    _, beta = play.settled("alpha", "beta", session_ms=6_000)
    play.now()
    play.server.kill()
    beta.kill()
    play.server.start()


@situation(
    "the server is restarted with a smaller group.max.size",
    CONFLUENT,
    expected="""
        coordinator_closed why=stopped
        coordinator_loaded groups=1 members=2
        rebalance_started who=null cause=group_shrunk evidence.limit=1 members=2
        member_removed cause=group_shrunk
    """,
)
def _shrunk(play: Play) -> None:
    play.settled("alpha", "beta", session_ms=LONG_MS)
    play.now()
    play.server.stop()
    play.server.settings = {**play.server.settings, "group.max.size": "1"}
    play.server.start()


# -- administration --------------------------------------------------------------------------------


@situation(
    "a group is deleted",
    KAFKA_PYTHON,
    expected=f"""
        group_emptied cause=member_left who=alpha
        offsets_deleted who={KAFKA_PYTHON.name} count=6 why=group_deleted
        group_deleted who={KAFKA_PYTHON.name} why=request
    """,
)
def _deleted(play: Play) -> None:
    [alpha] = play.settled("alpha")
    play.consumed(alpha)
    play.now()
    alpha.ask("close")
    play.admin.ask("delete_group", group=play.group.name)


@situation(
    "offsets are reset",
    KAFKA_PYTHON,
    expected=f"""
        offsets_reset who={KAFKA_PYTHON.name} partitions=0,1 from=1,1 to=0,5
    """,
)
def _reset(play: Play) -> None:
    [alpha] = play.settled("alpha")
    play.consumed(alpha)
    alpha.ask("close")
    play.now()
    topic = play.group.topic
    offsets = [[topic, 0, 0], [topic, 1, 5]]
    play.admin.ask("alter_offsets", group=play.group.name, offsets=offsets)


@situation(
    "a consumer commits",
    CONFLUENT,
    expected="""
        commits who=alpha requests=1
        coordinator_closed why=stopped
    """,
)
def _commits(play: Play) -> None:
    [alpha] = play.settled("alpha")
    play.now()
    play.consumed(alpha)
    play.server.stop()
    play.server.start()
