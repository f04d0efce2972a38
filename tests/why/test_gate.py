"""No setting reaches a person that its clients do not have, or that would have cost more."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupkeeper
from groupkeeper.history.rounds import Round, SessionLimits
from groupkeeper.why.advice import advice
from groupkeeper.why.client_settings import (
    AIOKAFKA,
    COOPERATIVE,
    GRACE,
    HEARTBEAT,
    INSTANCE,
    LARGEST_GROUP,
    LIBRDKAFKA,
    POLL_INTERVAL,
    POLL_RECORDS,
    RESERVE_ON,
    SARAMA,
    SESSION,
    STRATEGY,
    ClientSoftware,
    software_of_client,
)
from groupkeeper.why.client_settings import FRANZ_GO as GO
from groupkeeper.why.client_settings import JAVA as JAVA_CLIENT
from groupkeeper.why.client_settings import KAFKA_PYTHON as PYTHON
from groupkeeper.why.gate import FREE, LEAST_SAVED_MS, WORTH, Audience, Cost, SettingChange, judge
from groupkeeper.why.proposals import reserve_place
from groupkeeper.why.texts import settings_in
from tests.support.told_events import who
from tests.support.told_incidents import CONFLUENT, FRANZ_GO, JAVA, KAFKA_PYTHON, absence

LESS = Cost(50_000, 20_000)
JAVAS = Audience("consumer", "range", (JAVA_CLIENT,), has_unknown=False)
STATIC = SettingChange(((INSTANCE, "one for each member"), (SESSION, 60_000)), LESS)

ASSIGNOR = SettingChange(((STRATEGY, COOPERATIVE),), LESS)


def of(*clients: ClientSoftware, protocol: str = "range", type_: str = "consumer") -> Audience:
    return Audience(type_, protocol, clients, has_unknown=False)


def session(ms: int, cost: Cost | None = LESS) -> SettingChange:
    return SettingChange(((SESSION, ms),), cost)


# -- costs -----------------------------------------------------------------------------------------


def test_a_change_that_would_have_cost_less_passes_with_procedure_and_figures() -> None:
    verdict = judge(STATIC, JAVAS)
    assert verdict.text == (
        "Set a group.instance.id for each member and session.timeout.ms=60000 (60 s), by one "
        "rolling restart with one id for each process: nobody read for 50 partition-seconds, it "
        "would have been 20. A member that dies then keeps its partitions for 60 s."
    )
    assert verdict.passes


def test_a_session_that_is_not_longer_has_no_price() -> None:
    long = Audience(
        "consumer", "range", (JAVA_CLIENT,), has_unknown=False, session_timeout_ms=60_000
    )
    assert "dies" not in judge(STATIC, long).text
    assert "dies" in judge(session(61_000), long).text


@pytest.mark.parametrize(
    ("cost", "why"),
    [
        (Cost(50_000, 45_000), "nobody read for 50 partition-seconds, and with session.timeout.ms"),
        (Cost(50_000, 50_000), "nobody read for 50 partition-seconds, and with session.timeout.ms"),
        (Cost(2_000, 50_000), "nobody read for 2.0 partition-seconds, and with session.timeout.ms"),
        (None, "what it would save is not known"),
    ],
)
def test_a_change_that_costs_as_much_or_an_unknown_amount_is_refused(
    cost: Cost | None, why: str
) -> None:
    verdict = judge(session(60_000, cost), JAVAS)
    assert not verdict.passes and f"No setting is proposed: {why}" in verdict.text


def test_settings_that_keep_nothing_from_being_read_need_no_cost() -> None:
    for key in FREE:
        assert judge(SettingChange(((key, 100),)), JAVAS).passes
    assert not judge(SettingChange(((POLL_RECORDS, 100), (SESSION, 60_000))), JAVAS).passes
    assert judge(SettingChange(()), JAVAS).text == ""


# -- who has which setting -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "audience", "why"),
    [
        (STATIC, of(type_="connect", protocol="sessioned"), "Kafka Connect has no group.instance"),
        (
            SettingChange(((POLL_RECORDS, 9),)),
            of(type_="connect"),
            "Kafka Connect has no max.poll.records",
        ),
        (session(60_000), of(type_="sr"), "whether its members are consumers is not known"),
        (session(60_000), Audience(None), "whether its members are consumers is not known"),
        (ASSIGNOR, of(protocol="stream"), "Kafka Streams sets"),
        (ASSIGNOR, of(JAVA_CLIENT, AIOKAFKA), "aiokafka has no"),
        (ASSIGNOR, of(SARAMA), "sarama has no cooperative-sticky"),
        (ASSIGNOR, Audience("consumer"), "not all clients are known"),
        (SettingChange(((POLL_RECORDS, 9),)), of(LIBRDKAFKA), "librdkafka has no max.poll.records"),
        (SettingChange(((POLL_RECORDS, 9),)), Audience("consumer"), "not all clients are known"),
    ],
)
def test_a_setting_that_members_do_not_have_is_refused(
    change: SettingChange, audience: Audience, why: str
) -> None:
    verdict = judge(change, audience)
    assert not verdict.passes and why in verdict.text, verdict.text


@pytest.mark.parametrize(
    ("change", "audience", "text"),
    [
        (STATIC, of(protocol="stream"), "Set a group.instance.id for each member and session"),
        (session(60_000), of(type_="connect"), "Set session.timeout.ms=60000 (60 s):"),
        (session(60_000), of(PYTHON), "=60000 (60 s) (session_timeout_ms in kafka-python):"),
        (session(60_000), of(GO, SARAMA), "(SessionTimeout in franz-go; Consumer.Group.Session."),
        (
            SettingChange(((LARGEST_GROUP, 9),)),
            of(type_="sr"),
            "Set group.max.size=9 of the coordinator.",
        ),
        (SettingChange(((HEARTBEAT, 9),)), of(LIBRDKAFKA), "Set heartbeat.interval.ms=9 (9 ms)."),
    ],
)
def test_settings_are_spelled_as_the_members_spell_them(
    change: SettingChange, audience: Audience, text: str
) -> None:
    assert text in judge(change, audience).text


@pytest.mark.parametrize(
    ("client", "spelled"),
    [
        (JAVA_CLIENT, "=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
        (LIBRDKAFKA, "=cooperative-sticky"),
        (PYTHON, "=CooperativeStickyAssignor (partition_assignment_strategy in kafka-python)"),
        (GO, "=CooperativeStickyBalancer (Balancers in franz-go)"),
    ],
)
def test_an_assignor_has_the_name_of_each_client_and_takes_two_rolling_restarts(
    client: ClientSoftware, spelled: str
) -> None:
    text = judge(ASSIGNOR, of(client)).text
    assert f"Set partition.assignment.strategy{spelled}, by two rolling restarts: first" in text


def test_librdkafka_does_not_start_with_a_session_longer_than_its_poll_interval() -> None:
    longer = judge(session(660_000), of(JAVA_CLIENT, LIBRDKAFKA))
    assert dict(longer.settings) == {SESSION: 660_000, POLL_INTERVAL: 660_000}
    assert dict(judge(session(660_000), Audience("consumer")).settings) == {
        SESSION: 660_000,
        POLL_INTERVAL: 660_000,
    }
    assert dict(judge(session(660_000), JAVAS).settings) == {SESSION: 660_000}
    short = Audience("consumer", "range", (LIBRDKAFKA,), has_unknown=False, rebalance_timeout_ms=30)
    assert POLL_INTERVAL in dict(judge(session(60_000), short).settings)
    assert POLL_INTERVAL not in dict(judge(session(60_000), of(LIBRDKAFKA)).settings)


def test_the_limits_of_the_coordinator_come_first() -> None:
    limited = Audience("consumer", limits=SessionLimits(min_ms=8_000, max_ms=30_000))
    assert judge(session(50_000), limited).text.startswith(
        "Set group.max.session.timeout.ms=50000 (50 s) of the coordinator, which has 30000, and "
        "session.timeout.ms=50000 (50 s)"
    )
    assert "Set group.min.session.timeout.ms=7000" in judge(session(7_000), limited).text


@pytest.mark.parametrize(
    ("person", "client"),
    [
        ({"software": JAVA}, JAVA_CLIENT),
        ({"software": CONFLUENT}, LIBRDKAFKA),
        ({"software": {"name": "librdkafka", "version": "2.3.0"}}, LIBRDKAFKA),
        ({"software": KAFKA_PYTHON}, PYTHON),
        ({"software": FRANZ_GO}, GO),
        ({"client_id": "aiokafka-0.14.0"}, AIOKAFKA),
        ({"client_id": "billing"}, None),
        ({"software": {"name": "new", "version": "1"}, "client_id": "rdkafka"}, None),
    ],
)
def test_clients_are_known_by_their_software_or_their_default_client_id(
    person: dict[str, object], client: ClientSoftware | None
) -> None:
    assert software_of_client(who(**person)) is client


# -- incidents -------------------------------------------------------------------------------------


def told(rounds: list[Round]) -> list[str]:
    return [advice(each) for each in rounds]


def test_a_quick_restart_of_a_member_is_worth_an_instance_id() -> None:
    first, second = told(absence(away_ms=4_000))
    # 4 + 2 partitions for 3 s, then 6 for 3 s, against 2 partitions for 4 s.
    assert "Set a group.instance.id for each member, by one rolling restart" in first
    assert "nobody read for 36 partition-seconds, it would have been 8.0." in first
    assert "session.timeout.ms" not in first  # the member's own of 45 s is enough
    assert "It was away for 4.0 s. Set a group.instance.id" in second


def test_scaling_in_for_eight_minutes_is_not_worth_an_instance_id() -> None:
    for text in told(absence(partitions=12, members=6, away_ms=480_000)):
        assert settings_in(text) == []
        assert (
            "No setting is proposed: nobody read for 72 partition-seconds, and with "
            "group.instance.id and session.timeout.ms it would have been 960."
        ) in text


def test_a_member_that_never_comes_back_costs_a_static_group_its_session() -> None:
    [only] = told(absence(returns=False))
    assert only == "Nothing is wrong if it was meant to stop."


def test_a_short_pause_is_worth_a_longer_session() -> None:
    silent = {"silent_ms": 6_000, "session_timeout_ms": 6_000, "connection": "open"}
    first, second = told(
        absence(away_ms=9_000, code="session_expired", evidence=silent, timeouts=(6_000, 300_000))
    )
    assert "Set session.timeout.ms=15000 (15 s): nobody read for 48 partition-seconds" in first
    assert "it would have been 18." in second


def test_workers_of_connect_are_given_no_setting_of_consumers() -> None:
    for code in ("member_left", "session_expired"):
        for text in told(absence(code=code, protocol_type="connect", protocol="sessioned")):
            assert settings_in(text) == []
            assert "No setting is proposed: Kafka Connect has no group.instance.id." in text
    [gone] = told(absence(protocol_type="connect", protocol="sessioned", returns=False))
    assert "scheduled.rebalance.max.delay.ms (300000 unless set)" in gone


def test_a_member_that_is_added_is_worth_another_assignor_only_if_that_costs_less() -> None:
    for moved, passes in ((1, True), (5, False)):
        [first, *_] = absence(returns=False)
        first.cause = {**(first.cause or {}), "code": "member_joined", "likely": None}
        first.removed, first.moved = [], moved
        assert ("CooperativeStickyAssignor, by two rolling" in advice(first)) is passes


def test_only_the_gate_names_a_setting_with_a_value() -> None:
    package = Path(groupkeeper.__file__).parent
    naming = []
    for file in sorted([*package.glob("why/*.py"), *package.glob("analytics/questions/*.py")]):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "groupkeeper.why.texts":
                naming += [file.name for each in node.names if each.name == "setting"]
    assert naming == ["gate.py"]


# -- all incidents ---------------------------------------------------------------------------------

FIGURES = re.compile(r"nobody read for ([\d.]+) partition-seconds, it would have been ([\d.]+)\.")
SOFTWARE = st.sampled_from([JAVA, CONFLUENT, KAFKA_PYTHON, FRANZ_GO, None])
INCIDENTS = st.fixed_dictionaries(
    {
        "partitions": st.integers(1, 40),
        "members": st.integers(2, 6),
        "away_ms": st.integers(1, 900_000),
        "took_ms": st.integers(1, 60_000),
        "code": st.sampled_from(["member_left", "session_expired", "join_timeout"]),
        "evidence": st.fixed_dictionaries(
            {},
            optional={
                "silent_ms": st.integers(0, 60_000),
                "session_timeout_ms": st.integers(6_000, 60_000),
                "rebalance_timeout_ms": st.integers(1_000, 600_000),
                "waited_ms": st.integers(0, 600_000),
                "connection": st.sampled_from(["open", "closed", None]),
            },
        ),
        "software": st.lists(SOFTWARE, min_size=1, max_size=3),
        "protocol": st.sampled_from(["range", "stream", "cooperative-sticky"]),
        "protocol_type": st.sampled_from(["consumer", "connect", "other"]),
        "kept": st.sampled_from([True, False, None]),
        "returns": st.booleans(),
        "instance": st.sampled_from([None, "pod-1"]),
        "timeouts": st.tuples(st.integers(6_000, 300_000), st.integers(1_000, 600_000)),
    }
)


def test_nothing_is_proposed_that_saves_less_than_a_second_of_one_partition() -> None:
    for took_ms, proposes in ((400, False), (600, True)):
        texts = told(absence(partitions=1, members=2, away_ms=1, took_ms=took_ms))
        assert {"Set a group.instance.id" in text for text in texts} == {proposes}, texts


@given(INCIDENTS)
def test_nothing_that_is_proposed_would_have_cost_more_or_is_no_setting_of_the_members(
    incident: dict[str, object],
) -> None:
    rounds = absence(**incident)  # type: ignore[arg-type]
    for each in rounds:
        text = advice(each)
        proposed = dict(settings_in(text))
        for now, then in FIGURES.findall(text):
            assert float(then) < float(now)
        costed = proposed.keys() - FREE
        assert not costed or "partition-seconds, it would have been" in text
        if incident["protocol_type"] != "consumer":
            assert proposed.keys() <= {SESSION, HEARTBEAT, "group.max.session.timeout.ms"}
        names = {each["name"] if each else None for each in incident["software"]}  # type: ignore[attr-defined]
        if proposed.get(SESSION, 0) > 600_000 and names & {"confluent-kafka-python", None}:
            assert proposed[POLL_INTERVAL] >= proposed[SESSION]
        if names != {"apache-kafka-java"}:
            assert POLL_RECORDS not in proposed or names <= {"apache-kafka-java", "kafka-python"}


@given(
    partitions=st.integers(1, 40),
    members=st.integers(2, 6),
    away_ms=st.integers(1, 900_000),
    took_ms=st.integers(1, 60_000),
)
def test_an_instance_id_is_proposed_if_and_only_if_it_would_have_cost_clearly_less(
    partitions: int, members: int, away_ms: int, took_ms: int
) -> None:
    shape = {"partitions": partitions, "members": members, "took_ms": took_ms}
    held = len(range(members - 1, partitions, members))
    now_ms = 2 * partitions * took_ms  # all stand still when it leaves, and when it is back
    then_ms = held * max(away_ms, took_ms)
    is_worth_it = then_ms < now_ms * WORTH and now_ms - then_ms >= LEAST_SAVED_MS
    for text in told(absence(away_ms=away_ms, **shape)):
        assert ("Set a group.instance.id" in text) is is_worth_it, text


# -- configs of the group --------------------------------------------------------------------------


def test_a_grace_needs_nothing_of_clients_and_says_what_it_costs() -> None:
    change = SettingChange(((GRACE, 15_000),), LESS)
    for about in (JAVAS, of(AIOKAFKA), of(SARAMA)):
        verdict = judge(change, about)
        assert verdict.text == (
            "Set classic.scheduled.rebalance.max.delay.ms=15000 (15 s) of the group, without a "
            "change of its clients: nobody read for 50 partition-seconds, it would have been 20. "
            "Partitions of a member that ends for good then wait 15 s longer."
        )


def test_connect_keeps_the_tasks_of_lost_workers_itself() -> None:
    verdict = judge(SettingChange(((GRACE, 15_000),), LESS), Audience("connect", "sessioned", ()))
    assert "KIP-415" in verdict.text and not verdict.passes


def test_a_grace_that_would_not_have_paid_is_refused() -> None:
    assert not judge(SettingChange(((GRACE, 15_000),), Cost(50_000, 60_000)), JAVAS).passes
    assert not judge(SettingChange(((GRACE, 15_000),)), JAVAS).passes


def test_members_that_leave_are_kept_only_if_the_lost_one_left() -> None:
    for code, wanted in (("member_left", True), ("session_expired", False)):
        current = Round("g", 1, 1, 1)
        current.removed = [{"who": who(), "cause": {"code": code}}]
        current.session_timeout_ms = 10_000
        settings = dict(reserve_place(current, 22_000).settings)
        assert settings.pop(RESERVE_ON, None) == ("lost,left" if wanted else None)
        assert settings == {GRACE: 35_000 if wanted else 20_000}
