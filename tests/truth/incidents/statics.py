"""Incidents of instance ids and of administrators."""

import time
from typing import Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.truth.foreign import JAVA
from tests.truth.incidents.stage import LONG_MS, Stage
from tests.truth.incidents.truths import CALM, EVERY, incident, truth
from tests.truth.play import KAFKA_PYTHON

_THREE: Final = ("alpha", "beta", "gamma")


@incident(
    "rolling restart with instance ids",
    *EVERY,
    source="apache/kafka#6790 (KAFKA-8219)",
    truth=truth(
        "Three static members were restarted one after the other, each within its session.",
        "member_replaced/rolling_restart",
        "static_member_returned_unready static_member_returned_changed/-",
        r"duel|crash",
    ),
)
def _rolling(stage: Stage) -> None:
    members = stage.settled(*_THREE, static=True, session_ms=LONG_MS)
    for place, name in enumerate(_THREE):
        members[place].ask("close")
        members[place] = stage.join(name, static=True, session_ms=LONG_MS)
        stage.settle(*members)
        time.sleep(1)


@incident(
    "a static member is killed and restarted",
    *EVERY,
    source="twmb/franz-go#931: replicas of a stateful set",
    truth=truth(
        "beta was killed, and was back within its session.",
        "member_replaced",
        "",
        r"duel|running client|two clients",
    ),
)
def _restarted(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True, session_ms=LONG_MS)
    beta.kill()
    time.sleep(1)
    stage.settle(alpha, stage.join("beta", static=True, session_ms=LONG_MS))
    time.sleep(1)


@incident(
    "a static member is away for longer than its session",
    *EVERY,
    source="apache/kafka#7048 (KAFKA-8636)",
    truth=truth(
        "beta was closed, its session ended, and it came back later.",
        "session_expired/crash_or_network|session_expired static_member_joined",
        "static_member_joined/*",
        r"duel|admin",
    ),
)
def _too_late(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True)
    beta.ask("close")
    stage.group.settle(alpha)
    stage.more([alpha], "beta", static=True)


@incident(
    "two clients with one instance id go on and on",
    AIOKAFKA,
    source="aio-libs/aiokafka#1188",
    truth=truth(
        "Two running clients have the instance id beta.",
        "member_replaced/duel",
        "member_replaced/* member_fenced/* requests_refused/*",
        r"members were restarted",
        CALM,
    ),
)
def _duel(stage: Stage) -> None:
    stage.settled("beta", static=True, session_ms=LONG_MS)
    stage.join("beta", static=True, session_ms=LONG_MS)
    time.sleep(8)


@incident(
    "another client takes the place of a running one",
    *EVERY,
    source="twmb/franz-go#931; confluentinc/librdkafka#2635; review of the core, C11",
    truth=truth(
        "A second client with beta's instance id joined while beta ran.",
        "member_replaced/taken_over|member_replaced/duel",
        "member_replaced/* member_fenced/* requests_refused/* member_joined "
        "static_member_returned_unready/* ",
        r"\brestarted after|was restarted",
    ),
)
def _taken_over(stage: Stage) -> None:
    stage.settled("alpha", "beta", static=True, session_ms=LONG_MS)
    stage.join("beta", static=True, session_ms=LONG_MS)
    time.sleep(6)


@incident(
    "a static member comes back with another assignor",
    CONFLUENT,
    source="confluentinc/librdkafka#3589",
    truth=truth(
        "The only member was restarted with another assignor.",
        "static_member_returned_changed",
        "member_replaced",
        r"duel|crash",
    ),
)
def _other_assignor(stage: Stage) -> None:
    [alpha] = stage.settled(
        "alpha", static=True, session_ms=LONG_MS, partition__assignment__strategy="range,roundrobin"
    )
    alpha.ask("close")
    alpha = stage.join(
        "alpha", static=True, session_ms=LONG_MS, partition__assignment__strategy="roundrobin,range"
    )
    stage.settle(alpha)
    time.sleep(1)


# -- administrators --------------------------------------------------------------------------------


@incident(
    "an administrator removes a static member",
    *EVERY,
    source="apache/kafka#16047 (KAFKA-16815)",
    truth=truth(
        "An administrator removed the member with the instance id beta.",
        "member_removed_by_admin",
        "static_member_joined/* member_joined/* requests_refused/* member_fenced/*",
        r"(?<!only )restarted|crash",
    ),
)
def _removed(stage: Stage) -> None:
    stage.settled("alpha", "beta", static=True, session_ms=LONG_MS)
    stage.admin.ask("remove_instances", group=stage.group.name, instance_ids=["beta"])
    time.sleep(5)


@incident(
    "an administrator with the same client id removes a member",
    KAFKA_PYTHON,
    source="review of the core, C9: default client ids on one machine",
    truth=truth(
        "An administrator on the member's own machine, with the same client id, removed it.",
        "member_removed_by_admin",
        "member_joined/* member_joined requests_refused/*",
        r"if it was meant to stop|such a restart",
        r"session\.timeout\.ms=1000\b",  # a sixtieth of what the member has
    ),
)
def _removed_beside(stage: Stage) -> None:
    name = KAFKA_PYTHON.name
    alpha, beta = stage.settled("alpha", "beta", session_ms=LONG_MS)
    beta.ask("close")
    stage.group.settle(alpha)
    other = stage.join("kafka-python-" + name.rsplit("-", 1)[1], session_ms=LONG_MS)
    stage.group.settle(alpha, other)
    stage.now()
    member = other.ask("member")["member_id"]
    other.tell("remove_members", group=stage.group.name, member_ids=[member])
    time.sleep(5)


@incident(
    "offsets are reset while nobody reads",
    CONFLUENT,
    KAFKA_PYTHON,
    JAVA,
    source="a replay that an operator asks for",
    truth=truth(
        "All left, an administrator set offsets back, and the member came again.",
        "member_left|member_left/shutdown offsets_reset member_joined",
        "group_emptied/*",
        r"crash",
    ),
)
def _reset(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    alpha.ask("close")
    offsets = [[stage.group.topic, number, 0] for number in range(2)]
    stage.admin.ask("alter_offsets", group=stage.group.name, offsets=offsets)
    stage.more([], "alpha")


@incident(
    "the group is deleted and comes again",
    CONFLUENT,
    KAFKA_PYTHON,
    source="an operator who begins anew",
    truth=truth(
        "The member left, an administrator deleted the group, and the member came again.",
        "member_left group_deleted member_joined",
        "group_emptied/* offsets_deleted/*",
        r"crash",
    ),
)
def _deleted(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    alpha.ask("close")
    stage.admin.ask("delete_group", group=stage.group.name)
    stage.more([], "alpha")


@incident(
    "clients of two libraries share the group",
    CONFLUENT,
    JAVA,
    source="a service that is rewritten in another language",
    truth=truth(
        "A member on kafka-python joined.",
        "member_joined",
        "",
        r"crash|(?<!sessions )restarted|was away",
    ),
)
def _two_libraries(stage: Stage) -> None:
    members = stage.settled("alpha", "beta")
    other = stage.join("other", library=KAFKA_PYTHON)
    stage.settle(*members, other)
    time.sleep(2)
