"""Counting, and the page that Prometheus reads."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from groupkeeper.coordinator import facts
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.policy import WINDOW
from groupkeeper.observe import exposition
from groupkeeper.observe.exposition import TOPIC_COUNTERS, TOPICS, Exposition
from groupkeeper.observe.fact_counters import COUNTERS
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.observe.group_series import FAMILIES
from groupkeeper.observe.metrics import SECONDS, Histogram, Metrics, PartitionSnapshot
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.protocol.registry import APIS
from tests.support.requests import join_request
from tests.support.served import Served, settle
from tests.support.slices import whole

COMMIT = OffsetCommitRequest()
GROUP = {"group": "orders", "generation": 3, "state": "Stable", "round": 0}
WHO = Who("member-1")
LEFT = Cause(CauseCode.MEMBER_LEFT, WHO)
JOINED = Cause(CauseCode.MEMBER_JOINED)
HEAD = tuple(GROUP.values())
BEAT = "Heartbeat"


def text_of(metrics: Metrics) -> str:
    return b"".join(whole(Exposition(metrics).page())).decode()


def samples(metrics: Metrics) -> dict[str, float]:
    """`name{label=value}` -> value of a whole page."""
    page = text_of(metrics)
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def noted(fact: facts.Fact) -> tuple[Origin, facts.NotedFact]:
    return Origin(7, 1), facts.NotedFact(0, 1_000, 1_700_000_000_000, False, fact)


def test_label_values_are_in_lower_case_but_for_names_of_kafka_and_of_exceptions() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, about in COUNTERS.items():
        for values in about.known:
            for label, value in zip(about.labels, values, strict=True):
                assert label in ("api", "error") or value == value.lower(), name
                assert label != "limit" or f"`{value}`" in page, value


def test_series_with_known_labels_exist_before_anything_has_happened() -> None:
    found = samples(Metrics())
    for name, about in COUNTERS.items():
        for values in about.known:
            pairs = zip(about.labels, values, strict=True)
            labels = ",".join(f"{label}={value}" for label, value in pairs)
            assert found[f"groupkeeper_{name}_total" + (f"{{{labels}}}" if labels else "")] == 0


def test_a_server_has_the_series_of_its_apis_from_the_start(served: Served) -> None:
    found = samples(served.server.metrics)
    assert found["groupkeeper_requests_total{api=LeaveGroup}"] == 0
    assert found["groupkeeper_answers_total{api=LeaveGroup,error=NONE}"] == 0
    assert found["groupkeeper_answers_total{api=SyncGroup,error=ILLEGAL_GENERATION}"] == 0
    assert found["groupkeeper_request_latency_seconds_count{api=LeaveGroup}"] == 0


def test_answers_without_error_are_the_rest() -> None:
    metrics = Metrics()
    metrics.requests[12].observe(0.1, times=10)
    metrics.answer_errors.answers[12] += 2
    metrics.answer_errors.by_code[12, 25] += 2
    metrics.answer_errors.by_code[12, 27] += 1
    metrics.answer_errors.by_code[12, 9999] += 1
    found = samples(metrics)
    name = "groupkeeper_answers_total{api=Heartbeat,error=%s}"
    errors = ("NONE", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "9999", "NOT_COORDINATOR")
    assert [found[name % error] for error in errors] == [8, 2, 1, 1, 0]


def seen(*happened: facts.Fact) -> dict[str, float]:
    metrics = Metrics()
    for fact in happened:
        metrics.observe(*noted(fact))
    return samples(metrics)


def test_a_histogram_puts_a_bound_into_its_own_bucket() -> None:
    times = Histogram()
    for seconds in (0.0, SECONDS[0], SECONDS[0] * 1.01, 1000.0):
        times.observe(seconds)
    assert (times.counts[0], times.counts[1], times.counts[-1]) == (2, 1, 1)
    assert times.count() == 4
    assert times.total == pytest.approx(1000.000201)


def test_requests_are_counted_and_timed_by_api() -> None:
    metrics = Metrics()
    metrics.requests[12].observe(0.0003)
    metrics.requests[12].observe(0.02)
    metrics.requests[11].observe(0.25, times=8)  # answered together
    metrics.requests[9999].observe(0.02)
    found = samples(metrics)
    assert found["groupkeeper_requests_total{api=Heartbeat}"] == 2
    assert found["groupkeeper_requests_total{api=9999}"] == 1
    assert found["groupkeeper_requests_total{api=JoinGroup}"] == 8
    assert found["groupkeeper_request_latency_seconds_sum{api=JoinGroup}"] == 2.0
    bucket = "groupkeeper_request_latency_seconds_bucket{api=Heartbeat,le=%s}"
    assert [found[bucket % le] for le in ("0.00025", "0.0005", "+Inf")] == [0, 1, 2]
    assert found["groupkeeper_request_latency_seconds_sum{api=Heartbeat}"] == pytest.approx(0.0203)


def test_rebalances_are_counted_by_cause() -> None:
    started = facts.RebalanceStarted(
        **GROUP, cause=LEFT, from_state="Stable", members=2, expected=[], deadline_ms=1
    )
    found = seen(started, started, facts.RebalanceCauseAdded(**GROUP, cause=LEFT))
    assert found["groupkeeper_rebalances_total{cause=member_left}"] == 2
    assert found["groupkeeper_rebalance_causes_added_total{cause=member_left}"] == 1


def test_the_two_phases_of_a_rebalance_are_timed_in_seconds() -> None:
    found = seen(
        facts.RebalanceJoined(
            **GROUP,
            leader="m",
            protocol_type="consumer",
            protocol="range",
            members=2,
            duration_ms=1500,
            joined=[("m", None, 3), ("n", None, 1200)],
            missing=[],
            ended_by="all_joined",
        ),
        facts.RebalanceCompleted(
            **GROUP,
            members=2,
            duration_ms=2500,
            leader_ms=1000,
            protocol_type="consumer",
            protocol="range",
            assignments=[],
            previous={},
            arrivals={},
        ),
    )
    assert found["groupkeeper_join_seconds_sum"] == 1.5
    assert found["groupkeeper_slowest_joiner_seconds_sum"] == 1.2
    assert found["groupkeeper_rebalance_seconds_sum"] == 2.5
    assert found["groupkeeper_rebalances_completed_total"] == 1


def test_every_fact_has_its_counter() -> None:
    commit = {"member": "", "instance": None, "partitions": [], "caller": Caller(9)}
    new = {"current_member": "new", "current_host": "/h"}
    for sample, fact, value in (
        ("groups_created_total", facts.GroupCreated(**GROUP, who=WHO), 1),
        ("groups_deleted_total{reason=expired}", deleted("expired"), 1),
        ("groups_deleted_total{reason=unused}", deleted("unused"), 1),
        ("groups_deleted_total{reason=requested}", deleted("request"), 1),
        ("members_joined_total{cause=member_joined}", facts.MemberJoined(*HEAD, WHO, JOINED), 1),
        ("members_replaced_total{rebalance=no}", facts.MemberReplaced(*HEAD, WHO, "m", True, 9), 1),
        ("members_fenced_total{api=Heartbeat}", facts.MemberFenced(*HEAD, WHO, BEAT, **new), 1),
        ("members_removed_total{cause=member_left}", facts.MemberRemoved(*HEAD, WHO, LEFT), 1),
        (
            "pending_members_dropped_total{reason=limit}",
            facts.PendingMemberDropped(**GROUP, who=WHO, cause=LEFT, expired=False),
            1,
        ),
        (
            "limits_reached_total{limit=max_groups}",
            facts.LimitReached(**GROUP, limit="max_groups", most=9, who=WHO),
            1,
        ),
        ("offsets_committed_total", facts.OffsetsCommitted(**GROUP, offsets=20, **commit), 20),
        (
            "offsets_removed_total{reason=expired}",
            facts.OffsetsRemoved(**GROUP, offsets=3, why="expired", partitions={}, who=None),
            3,
        ),
        (
            "replayed_records_total",
            facts.GroupsLoaded(**GROUP, records=9, groups=1, members=2, offsets=3),
            9,
        ),
        (
            "requests_refused_total{api=SyncGroup,error=ILLEGAL_GENERATION}",
            facts.RequestRefused(**GROUP, who=WHO, api="SyncGroup", error="ILLEGAL_GENERATION"),
            1,
        ),
    ):
        assert seen(fact)[f"groupkeeper_{sample}"] == value, sample


def deleted(why: str) -> facts.Fact:
    return facts.GroupDeleted(**GROUP, why=why, who=None)


def test_a_fact_without_a_counter_is_no_error() -> None:
    seen(facts.GroupEmptied(**GROUP, cause=LEFT))


def test_gauges_are_read_from_the_partitions_at_scrape_time() -> None:
    partitions = [
        PartitionSnapshot(0, "active", {"Stable": 2, "Empty": 1}, members=5, offsets=7),
        PartitionSnapshot(1, "active", {"Stable": 1}, members=1, offsets=1),
        PartitionSnapshot(2, "loading"),
    ]
    metrics = Metrics(lambda: partitions)
    found = samples(metrics)
    assert found["groupkeeper_groups{state=Stable}"] == 3
    assert found["groupkeeper_groups{state=PreparingRebalance}"] == 0
    assert found["groupkeeper_members"] == 6
    assert found["groupkeeper_offsets"] == 8
    assert found["groupkeeper_partitions{state=loading}"] == 1
    partitions.clear()
    assert samples(metrics)["groupkeeper_members"] == 0


def test_appends_connections_and_replay() -> None:
    metrics = Metrics()
    metrics.appends.record(0.0004, records=20, size_bytes=1500)
    metrics.appends.failures += 1
    metrics.connections.open = 4
    metrics.connections.accepted = 9
    metrics.replay_seconds.observe(0.7)
    metrics.counts["partitions_closed", "AppendFailed"] += 2
    found = samples(metrics)
    assert found["groupkeeper_append_latency_seconds_count"] == 1
    assert found["groupkeeper_append_records_total"] == 20
    assert found["groupkeeper_append_bytes_total"] == 1500
    assert found["groupkeeper_append_failures_total"] == 1
    assert found["groupkeeper_connections"] == 4
    assert found["groupkeeper_connections_accepted_total"] == 9
    assert found["groupkeeper_replay_seconds_sum"] == 0.7
    assert found["groupkeeper_partitions_closed_total{error=AppendFailed}"] == 2


def test_the_process_and_the_build_are_there() -> None:
    found = samples(Metrics())
    assert found["process_resident_memory_bytes"] > 0
    assert any(name.startswith("groupkeeper_build_info{") for name in found)


def test_two_servers_do_not_share_numbers() -> None:
    one, other = Metrics(), Metrics()
    one.requests[12].observe(0.1)
    assert "groupkeeper_requests_total{api=Heartbeat}" not in samples(other)


def test_a_page_is_made_in_slices_and_the_same_however_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = Metrics()
    for api in APIS:
        metrics.requests[api].observe(0.01)
    slices = sum(1 for _ in Exposition(metrics).page())
    before = samples(metrics)
    monkeypatch.setattr(exposition, "SAMPLES_IN_A_SLICE", 10)
    assert sum(1 for _ in Exposition(metrics).page()) > slices > len(list(families()))
    after = samples(metrics)
    assert {name for name in before if before[name] != after[name]} <= {
        name for name in before if not name.startswith("groupkeeper_")
    }
    page = text_of(metrics)
    assert page.count("# TYPE groupkeeper_request_latency_seconds ") == 1


def families() -> Iterator[str]:
    metrics = Metrics()
    metrics.topics = lambda: dict.fromkeys((*TOPICS, *TOPIC_COUNTERS), 0)
    page = text_of(metrics)
    return (line.split()[2] for line in page.splitlines() if line.startswith("# TYPE groupkeeper_"))


def test_topics_are_counted_by_the_server(served: Served) -> None:
    served.client().call(
        7,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="invoices", num_partitions=3, replication_factor=1)]
        ),
    )
    page = text_of(served.server.metrics).splitlines()
    assert "groupkeeper_topics 3.0" in page
    assert "groupkeeper_topic_partitions 15.0" in page
    assert "groupkeeper_fetches_waiting 0.0" in page


def test_names_are_unique_and_in_base_units() -> None:
    names = list(families())
    assert len(names) == len(set(names))
    assert {f"groupkeeper_{name}_total" for name in COUNTERS} <= set(names)
    assert not [name for name in names if name.endswith(("_ms", "_millis", "_kb"))]


def described() -> set[str]:
    """The names in the tables of the page."""
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    text = page.read_text(encoding="utf-8")
    return set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\|(.*?)\|", text, re.M))))


def test_every_metric_is_in_the_page_of_metrics() -> None:
    ours = {name.removeprefix("groupkeeper_") for name in families()}
    assert described() == ours | set(FAMILIES)


def test_time_in_rebalances_is_added_when_they_end(served: Served) -> None:
    client = served.client()
    served.client().send(3, join_request("g"))
    served.advance(0.1)
    joined = client.join("h")
    served.advance(7)
    assert samples(served.server.metrics)["groupkeeper_not_stable_seconds_total"] == 0
    client.sync(joined.member_id, joined.generation_id, "h")
    served.advance(0.1)
    assert samples(served.server.metrics)["groupkeeper_not_stable_seconds_total"] == pytest.approx(
        7, abs=0.1
    )


def test_a_rebalance_that_a_failure_has_ended_is_not_added_later(served: Served) -> None:
    client = served.client()
    client.join("g")
    served.advance(0.1)
    served.fail("g")
    served.settled()
    served.advance(100)
    settle(client, "g")
    served.advance(0.1)
    assert samples(served.server.metrics)["groupkeeper_not_stable_seconds_total"] < 1


def test_counting_does_not_import_prometheus_client() -> None:
    code = (
        "import sys; from groupkeeper.observe.metrics import Metrics;"
        "Metrics().replay_seconds.observe(1);"
        "print('prometheus_client' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_seats_are_counted_with_what_they_cost() -> None:
    metrics = Metrics()
    taken = {"reserved_ms": 5_000, "lost_by": "session_expired", "partitions": 4}
    early = {"reserved_ms": 0, "connection": "closed", "partitions": 2}
    over = Cause(CauseCode.SEAT_EXPIRED, WHO, evidence={**taken, "reserved_ms": 60_000})
    for fact in (
        facts.SeatReserved(*HEAD, WHO, LEFT, b"", 60_000),
        facts.MemberReplaced(*HEAD, WHO, "old", True, 9_000, evidence=taken),
        facts.MemberReplaced(*HEAD, WHO, "old", True, 1_000, evidence=early),
        facts.MemberReplaced(
            *HEAD, WHO, "old", False, 9_000, evidence={**taken, "partitions": None}
        ),
        facts.MemberReplaced(*HEAD, WHO, "static", True, 9_000),
        facts.MemberRemoved(*HEAD, WHO, over),
        facts.StandbyActivated(*HEAD, WHO, "old", LEFT, b"", 0),
        facts.RebalanceDeferred(*HEAD, WHO, JOINED, WINDOW, 5_000),
    ):
        metrics.observe(*noted(fact))
    found = samples(metrics)
    assert found["groupkeeper_seats_reserved_total"] == 1
    outcomes = {
        each: found[f"groupkeeper_seats_ended_total{{outcome={each}}}"]
        for each in ("taken", "expired", "not_lost")
    }
    assert outcomes == {"taken": 2, "expired": 1, "not_lost": 1}
    assert found["groupkeeper_rebalances_avoided_total{policy=grace}"] == 2
    assert found["groupkeeper_rebalances_avoided_total{policy=standby}"] == 1
    deferred = "groupkeeper_rebalances_deferred_total{policy=classic.scale.up.window.ms}"
    assert found[deferred] == 1
    assert found["groupkeeper_reserved_partition_seconds_total"] == 4 * 5 + 4 * 60
