"""Incidents of members that come and go: shutdowns, crashes, deploys, restarts, scaling."""

import time
from typing import Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.stage import LONG_MS, Stage
from tests.truth.incidents.truths import CALM, EVERY, incident, truth
from tests.truth.play import KAFKA_PYTHON

_LEFT: Final = "member_left|member_left/shutdown"
_ROLLING: Final = (r"restarted one after|members were restarted",)
_THREE: Final = ("alpha", "beta", "gamma")


@incident(
    "one of two is shut down",
    *EVERY,
    source="block/ftl#3815",
    truth=truth(
        "beta was closed and left.",
        _LEFT,
        "",
        *_ROLLING,
        r"crash|(?<!whether its application )called poll too late|was paused",
    ),
)
def _closed(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.ask("close")
    stage.group.settle(alpha)


@incident(
    "the last member leaves",
    *EVERY,
    source="DependencyTrack/helm-charts#162: all is stopped before a deploy",
    truth=truth(
        "The only member was closed; the group is empty.",
        _LEFT,
        "group_emptied/*",
        r"crash|was paused",
    ),
)
def _last(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    alpha.ask("close")
    time.sleep(1)


@incident(
    "killed by the kernel",
    *EVERY,
    source="numaproj/numaflow#3355: containers that are out of memory",
    truth=truth("beta was killed.", "session_expired/crash_or_network", "", *_ROLLING, CALM),
)
def _killed(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.kill()
    stage.group.settle(alpha)


@incident(
    "crash loop",
    *EVERY,
    source="numaproj/numaflow#3355: CrashLoopBackOff",
    truth=truth(
        "beta was killed and started again three times, without an instance id.",
        "session_expired/crash_or_network member_joined",
        "",
        *_ROLLING,
        r"Nothing is wrong if a member was added",
    ),
)
def _crash_loop(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    for _ in range(3):
        beta.kill()
        stage.group.settle(alpha)
        [_, beta] = stage.more([alpha], "beta")


@incident(
    "killed, and back before its session ends",
    KAFKA_PYTHON,
    CONFLUENT,
    JAVA,
    FRANZ_GO,
    source="numaproj/numaflow#3355: the new pod is up before the old one is given up",
    truth=truth(
        "beta was killed and started again after a second; its old place was held for the session.",
        "member_joined session_expired/crash_or_network|join_timeout/crash_or_network",
        "",
        *_ROLLING,
        r"slow",
    ),
)
def _back_early(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", session_ms=6_000)
    beta.kill()
    time.sleep(1)
    [*_] = stage.more([alpha], "beta", session_ms=6_000)


@incident(
    "all are killed at once",
    *EVERY,
    source="a node of Kubernetes that is lost with all pods",
    truth=truth(
        "All members were killed at the same time, and nobody came back.",
        "session_expired/crash_or_network",
        "group_emptied/*",
        *_ROLLING,
        CALM,
    ),
)
def _all_killed(stage: Stage) -> None:
    for each in stage.settled("alpha", "beta"):
        each.kill()
    time.sleep(6)


@incident(
    "deploy of all at once",
    *EVERY,
    source="getsentry/uptime-checker#72; strategy Recreate",
    truth=truth(
        "All were closed, then all were started anew.",
        f"{_LEFT} member_joined",
        "group_emptied/* member_joined/*",
        *_ROLLING,
        r"crash|paused|(?<!whether its application )called poll too late",
    ),
)
def _recreate(stage: Stage) -> None:
    olds = stage.settled(*_THREE)
    for old, number in [(each, each.tell("close")) for each in olds]:
        old.answer_to(number)
    stage.group.settle(*[stage.join(name) for name in _THREE])


@incident(
    "rolling restart without instance ids",
    *EVERY,
    source="elixir-broadway/broadway_kafka#109",
    truth=truth(
        "Three members were closed and started again one after the other.",
        f"{_LEFT}|member_left/rolling_restart member_joined/rolling_restart",
        "member_joined member_joined/rolling_restart member_left/rolling_restart",
        r"crash|paused|(?<!whether its application )called poll too late",
    ),
)
def _rolling(stage: Stage) -> None:
    members = stage.settled(*_THREE, session_ms=LONG_MS)
    for place, name in enumerate(_THREE):
        others = [each for each in members if each is not members[place]]
        members[place].ask("close")
        stage.group.settle(*others)
        members[place] = stage.join(name, session_ms=LONG_MS)
        stage.group.settle(*members)


@incident(
    "rolling restart of a cooperative group",
    CONFLUENT,
    FRANZ_GO,
    source="PostHog/posthog#34155: consumption drops in deploys although assignors are cooperative",
    truth=truth(
        "Three members of a cooperative group were closed and started one after the other.",
        f"{_LEFT}|member_left/rolling_restart member_joined/rolling_restart",
        "member_joined member_joined/rolling_restart member_left/rolling_restart "
        "member_rejoined/partitions_revoked leader_rejoined/partitions_revoked",
        r"crash|paused|partition\.assignment\.strategy",
    ),
)
def _rolling_cooperative(stage: Stage) -> None:
    how = {"partition__assignment__strategy": "cooperative-sticky", "session_ms": LONG_MS}
    members = stage.settled(*_THREE, **how)
    for place, name in enumerate(_THREE):
        others = [each for each in members if each is not members[place]]
        members[place].ask("close")
        stage.group.settle(*others)
        members[place] = stage.join(name, **how)
        stage.group.settle(*members)


@incident(
    "members are away for a minute each",
    CONFLUENT,
    KAFKA_PYTHON,
    FRANZ_GO,
    source="review of the analysis, A3: pods that need a minute to start",
    truth=truth(
        "Two members were closed, away for a minute, and started again, one after the other.",
        f"{_LEFT} member_joined|member_joined/rolling_restart",
        "member_joined member_joined/rolling_restart member_left/rolling_restart",
        r"crash|paused|(?<!whether its application )called poll too late",
    ),
    bench=True,
)
def _minutes_away(stage: Stage) -> None:
    members = stage.settled(*_THREE, session_ms=45_000)
    for place, name in enumerate(_THREE[:2]):
        stage.advance(300)
        others = [each for each in members if each is not members[place]]
        members[place].ask("close")
        stage.group.settle(*others)
        stage.advance(60)
        members[place] = stage.join(name, session_ms=45_000)
        stage.group.settle(*members)


@incident(
    "canary deploy: new ones come before old ones go",
    KAFKA_PYTHON,
    CONFLUENT,
    JAVA,
    FRANZ_GO,
    source="bsm/sarama-cluster#281: the new service is up while the old one stops",
    truth=truth(
        "Two members of a new version joined, then the two old ones left.",
        f"member_joined {_LEFT}",
        "",
        *_ROLLING,
        r"crash|paused|came back|was away",
    ),
)
def _surge(stage: Stage) -> None:
    olds = stage.settled("old-1", "old-2")
    news = stage.more(olds, "new-1", "new-2")[2:]
    for place, old in enumerate(olds):
        old.ask("close")
        stage.group.settle(*olds[place + 1 :], *news)


@incident(
    "scaled out from one to four",
    *EVERY,
    source="jaegertracing/jaeger#1819",
    truth=truth(
        "Three members were added.",
        "member_joined",
        "",
        *_ROLLING,
        r"crash|came back|was away|paused",
    ),
)
def _scaled_out(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    stage.group.settle(alpha, *[stage.join(f"more-{number}") for number in range(3)])


@incident(
    "scaled in from three to one",
    *EVERY,
    source="navikt/rapids-and-rivers#21: automatic scaling",
    truth=truth(
        "Two members were shut down for good.", _LEFT, "", *_ROLLING, r"crash|came back|paused"
    ),
)
def _scaled_in(stage: Stage) -> None:
    alpha, *others = stage.settled(*_THREE)
    for each in others:
        each.ask("close")
    stage.group.settle(alpha)


@incident(
    "autoscaling, three times",
    CONFLUENT,
    KAFKA_PYTHON,
    JAVA,
    source="review of the analysis, A2; navikt/rapids-and-rivers#21",
    truth=truth(
        "Two members came for eight minutes and went for eight, three times. Nothing was "
        "restarted.",
        f"member_joined {_LEFT}",
        "",
        *_ROLLING,
        r"group\.instance\.id",
        r"[Rr]estarted \d|these restarts|such a restart",
    ),
    bench=True,
    session_ms=45_000,
)
def _autoscaling(stage: Stage) -> None:
    base = stage.settled("base-1", "base-2")
    for _ in range(3):
        for _ in range(8):
            stage.advance(60)
        more = stage.more(base, "more-1", "more-2")[2:]
        for _ in range(8):
            stage.advance(60)
        for each in more:
            each.ask("close")
        stage.group.settle(*base)


@incident(
    "a member starts and ends in its first second",
    CONFLUENT,
    KAFKA_PYTHON,
    AIOKAFKA,
    FRANZ_GO,
    source="jobs and command-line tools that read a few records",
    truth=truth(
        "A second member joined and left at once.",
        f"member_joined {_LEFT}",
        "pending_member_expired requests_refused/*",
        *_ROLLING,
        r"was paused",
    ),
)
def _brief(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    beta = stage.join("beta")
    stage.group.settle(alpha, beta)
    beta.ask("close")
    stage.group.settle(alpha)


@incident(
    "two hosts behind one address have the same names",
    CONFLUENT,
    KAFKA_PYTHON,
    JAVA,
    source="default client ids behind one NAT; review of the analysis, A2",
    truth=truth(
        "Of two processes with the same client id and address one left; another one joined. "
        "Nothing was restarted one after the other.",
        f"{_LEFT} member_joined",
        "",
        *_ROLLING,
    ),
)
def _nat(stage: Stage) -> None:
    one, two = stage.settled("consumer", "consumer")
    two.ask("close")
    stage.group.settle(one)
    stage.more([one], "consumer")


@incident(
    "healthy for a minute",
    *EVERY,
    source="review of the analysis, B3",
    truth=truth(
        "Two members started, and nothing happened.", "", "", r"\[(critical|high|medium)\]"
    ),
    bench=True,
)
def _healthy(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", session_ms=45_000)
    stage.advance(60)
    stage.consumed(*members)
