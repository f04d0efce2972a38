"""Consumer, share and streams groups (KIP-848, KIP-932, KIP-1071) on the pages of an observer."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from groupkeeper.analytics.reading.groups import topic_names
from groupkeeper.analytics.reading.plan import plan
from groupkeeper.coordinator.group import Group
from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.partition import PartitionWatch
from groupkeeper.watch.views import view_of
from groupkeeper.web.group_view import assigned, type_of
from tests.analytics import newer_logs
from tests.analytics.logs import batch, log
from tests.support.newer_log import (
    NAMES,
    UNRELEASED,
    UNREVOKED,
    ConsumerLog,
    current,
    epoch,
    member,
)
from tests.support.served import Served
from tests.watch.observed import Observed

FIXTURE: Final = Path(__file__).parent.parent / "fixtures" / "kafka-group-protocols"
NAMES_OF_FIXTURE: Final = topic_names(plan([FIXTURE]))


class Shown:
    """An observer that was given the records of the group `g`."""

    def __init__(self, served: Served) -> None:
        self.observed = Observed(served)
        self.observed.caught_up()
        self.observed.run(self.observed._ended())
        self.server = self.observed.server
        self.server._cluster_asker.answers.names |= NAMES
        self.server._cluster_asker.answers.sessions["g"] = SessionLimit(45_000, 5_000)
        self.web = self.observed.web

    def take(self, data: bytes) -> None:
        number = self.server.groups.of("g").index
        start = self.server.position(number)
        self.observed.run(self.server.take(number, start, data, start))

    def group(self) -> dict[str, Any]:
        return self.web.found("groups", "g")


@pytest.fixture
def shown(served: Served) -> Shown:
    return Shown(served)


def two() -> ConsumerLog:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0, 1, 2, 3]})
    made.joins(1, "beta", 2, {"alpha": [0, 1], "beta": [2, 3]}, state=UNRELEASED, instance="b")
    return made


def test_a_consumer_group_is_in_the_list_of_groups(shown: Shown) -> None:
    made = two()
    made.reaches(2, "alpha", 2, [0, 1])
    made.reaches(3, "beta", 2, [2, 3])
    shown.take(made.data)
    [row] = shown.web.found("groups")["groups"]
    assert (row["group"], row["type"], row["protocol_type"]) == ("g", "consumer", "consumer")
    assert (row["state"], row["members"], row["generation"], row["round"]) == ("Stable", 2, 2, 2)
    text = row["last_cause"]["text"]
    assert text.startswith(
        "Inferred, 99 %: b (member beta, on 10.0.0.7) joined with an instance id"
    )
    assert row["last_cause"]["confidence"] == 0.99
    assert shown.web.found("groups", state="Stable")["total"] == 1


def test_its_members_have_epochs_and_partitions(shown: Shown) -> None:
    made = two()
    made.reaches(2, "alpha", 1, [0, 1], state=UNREVOKED, pending=[2, 3])
    shown.take(made.data)
    rows = shown.web.found("groups", "g", "members")["members"]
    about = [
        (row["client_id"], row["host"], row["instance_id"], row["epoch"], row["assignment"])
        for row in rows
    ]
    assert about == [
        ("alpha", "10.0.0.7", None, 1, [{"topic": "orders", "partitions": [0, 1]}]),
        ("beta", "10.0.0.7", "b", 2, []),
    ]
    assert [row["session_timeout_ms"] for row in rows] == [45_000, 45_000]


def test_the_name_of_a_topic_that_was_told_later_is_shown_without_a_commit(shown: Shown) -> None:
    names = shown.server._cluster_asker.answers.names
    names.clear()
    made = two()
    shown.take(made.data)
    names |= NAMES
    size = len(made.data)
    made.reaches(2, "alpha", 2, [0, 1])
    shown.take(made.data[size:])
    rows = shown.web.found("groups", "g", "members")["members"]
    assert rows[0]["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]


def test_a_session_timeout_that_the_cluster_did_not_tell_is_null(shown: Shown) -> None:
    shown.server._cluster_asker.answers.sessions.clear()
    shown.take(two().data)
    rows = shown.web.found("groups", "g", "members")["members"]
    assert [row["session_timeout_ms"] for row in rows] == [None, None]


def test_its_states_follow_from_epochs(shown: Shown) -> None:
    made = ConsumerLog()
    states = []

    def then() -> None:
        shown.take(made.placed[-1][3])
        states.append(shown.group()["state"])

    made.joins(0, "alpha", 1, {"alpha": [0, 1]})
    then()
    made.joins(1, "beta", 2, {"alpha": [0], "beta": [1]}, state=UNRELEASED)
    then()
    made.reaches(2, "alpha", 2, [0])
    then()
    made.reaches(3, "beta", 2, [1])
    then()
    made.leaves(4, 3, "beta")
    then()
    made.leaves(5, 4, "alpha")
    then()
    assert states == ["Stable", "Reconciling", "Reconciling", "Stable", "Assigning", "Empty"]


def test_whom_an_epoch_waits_for_is_shown(shown: Shown) -> None:
    made = two()
    shown.take(made.data)
    live = shown.group()["live"]
    assert live["rebalance"]["phase"] == "reconcile"
    assert live["rebalance"]["cause"] == {"code": "static_member_joined"}
    assert live["waiting_for"] == ["alpha", "beta"]
    made.reaches(2, "alpha", 2, [0, 1])
    made.reaches(3, "beta", 2, [2, 3])
    for each in made.placed[-2:]:
        shown.take(each[3])
    live = shown.group()["live"]
    assert (live["rebalance"], live["waiting_for"]) == (None, [])
    assert (live["leader"], shown.group()["leader"]) == (None, None)
    assert [each["joined"] for each in live["members"]] == [True, True]


def test_its_rebalances_are_told(shown: Shown) -> None:
    made = two()
    made.reaches(4, "alpha", 2, [0, 1])
    made.reaches(5, "beta", 2, [2, 3])
    shown.take(made.data)
    entries = shown.web.found("groups", "g", "why")["entries"]
    rounds = [each for each in entries if each["kind"] == "round"]
    last = rounds[-1]
    assert (last["generation"], last["group_type"], last["duration_ms"]) == (2, "consumer", 4_000)
    assert "Last to reach the epoch was alpha" in last["text"]
    assert (last["source"], last["moved"]) == ("log", 2)


def test_states_are_counted_in_metrics(shown: Shown) -> None:
    shown.take(two().data)
    lines = shown.observed.metrics().splitlines()
    assert 'groupkeeper_groups{state="Reconciling"} 1.0' in lines
    assert "groupkeeper_members 2.0" in lines
    assert 'groupkeeper_rebalances_total{cause="member_joined"} 1.0' in lines


def test_a_group_that_is_deleted_is_not_in_the_list(shown: Shown) -> None:
    made = ConsumerLog()
    made.joins(0, "alpha", 1, {"alpha": [0]})
    made.leaves(1, 2, "alpha")
    shown.take(made.data)
    assert shown.group()["state"] == "Empty"
    gone = ConsumerLog(made.end)
    gone.write(2, (epoch(2)[0], None))
    shown.take(gone.data)
    assert shown.web.found("groups")["groups"] == []


def test_a_member_of_which_only_partitions_were_read_is_shown(shown: Shown) -> None:
    """As compaction leaves it: the record of the member itself comes later."""
    made = ConsumerLog()
    made.write(0, current("alpha", 5, [0], before=5), epoch(5))
    made.write(1, member("alpha"))
    shown.take(made.data)
    [row] = shown.web.found("groups", "g", "members")["members"]
    assert (row["client_id"], row["epoch"]) == ("alpha", 5)


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_other_types_are_in_the_list(shown: Shown, kind: str) -> None:
    types = {"share": (11, 12), "streams": (17, 20)}[kind]
    made: Any = {"share": newer_logs.share_member, "streams": newer_logs.streams_member}[kind]
    records = [
        made("g", "one"),
        newer_logs.epoch("g", 1, kind=types[0]),
        newer_logs.target("g", 1, kind=types[1]),
    ]
    shown.take(log(batch(records)))
    [row] = shown.web.found("groups")["groups"]
    assert (row["type"], row["protocol_type"], row["members"]) == (kind, kind, 1)
    entries = shown.web.found("groups", "g", "why")["entries"]
    assert [each.get("type") for each in entries if each["kind"] == "event"] == ["member_joined"]


# -- a log of Apache Kafka -------------------------------------------------------------------------


def test_groups_are_those_that_kafkas_tools_described() -> None:
    """A compacted log with groups of every type, see tests/fixtures/kafka-group-protocols."""
    described = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))
    answers, groups = ClusterAnswers(names=NAMES_OF_FIXTURE), dict[str, Group]()
    for folder in sorted(FIXTURE.glob("__consumer_offsets-*")):
        fold = PartitionWatch(0, answers=answers)
        fold.begin(0, "")
        for segment in sorted(folder.glob("*.log")):
            fold.feed(segment.read_bytes())
        views = {name: view_of(name, each) for name, each in fold.groups.items()}
        groups |= {name: view.group for name, view in views.items() if view is not None}
    types = {name: type_of(group) for name, group in groups.items()}
    newer = {"modern": "consumer", "modern-emptied": "consumer", "upgraded": "consumer"}
    newer |= {"shared": "share", "streams-streams": "streams"}
    assert {name: each for name, each in types.items() if each != "classic"} == newer
    states = [(name, str(groups[name].state), len(groups[name].members)) for name in groups]
    told = {name: (state, int(members)) for name, state, _, members in described["states"]}
    assert {(name, *told[name]) for name in groups} == {*states}
    for name, member_id, count in described["members"]:
        owned = assigned(groups[name].members[member_id])
        assert owned is not None
        assert sum(len(each["partitions"]) for each in owned) == int(count), name
        topics = {each["topic"] for each in owned}
        assert topics == {"letters"} or types[name] == "streams", name
