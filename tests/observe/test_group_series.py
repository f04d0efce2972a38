"""The series of single groups and topics, of a whole server and of rows made up."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from groupkeeper.observe import group_series
from groupkeeper.observe.exposition import Exposition
from groupkeeper.observe.group_rows import GroupRow, LagRow, ReplicaRow, Sight, TopicRow
from groupkeeper.observe.group_series import FAMILIES, OTHER, Series
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.turns import Slices
from tests.groups.test_lag import produce
from tests.support.requests import commit_request, join_request, produce_request
from tests.support.served import Lines, Served, settle
from tests.support.slices import counted, whole

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Found:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scrapes:
    """Prometheus, as far as it matters here."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._exposition = Exposition(served.server.metrics)

    def scrape(self) -> Found:
        sight = self._served.run(self._exposition.look())
        return parsed(b"".join(whole(self._exposition.page(sight))).decode())


def scrape(served: Served) -> Found:
    return Scrapes(served).scrape()


def of(found: Found, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def with_labels(found: Found, **labels: str) -> set[str]:
    return {name for name, have in found if have >= set(labels.items())}


# -- a whole server --------------------------------------------------------------------------------


def test_offsets_and_lag_have_the_names_of_kafka_exporter(served: Served) -> None:
    client = served.client()
    produce(client, times=5)
    client.call(8, commit_request({("orders", 0): 3, ("orders", 1): 0}))
    found = scrape(served)
    place = {"consumergroup": "g", "topic": "orders", "partition": "0"}
    assert of(found, "kafka_consumergroup_current_offset", **place) == 3
    assert of(found, "kafka_consumergroup_lag", **place) == 2
    topic = {"consumergroup": "g", "topic": "orders"}
    assert of(found, "kafka_consumergroup_current_offset_sum", **topic) == 3
    assert of(found, "kafka_consumergroup_lag_sum", **topic) == 2
    assert of(found, "kafka_consumergroup_members", consumergroup="g") == 0
    assert of(found, "kafka_brokers") == 1


def test_topics_have_the_names_of_kafka_exporter(served: Served) -> None:
    produce(served.client(), times=5)
    found = scrape(served)
    assert of(found, "kafka_topic_partitions", topic="orders") == 6
    name, place = "kafka_topic_partition_%s", {"topic": "orders", "partition": "0"}
    values = {
        "current_offset": 5,
        "oldest_offset": 0,
        "in_sync_replica": 1,
        "leader": 0,
        "leader_is_preferred": 1,
        "replicas": 1,
        "under_replicated_partition": 0,
    }
    assert {each: of(found, name % each, **place) for each in values} == values
    assert not with_labels(found, topic="__consumer_offsets")


def test_lag_in_seconds_is_that_of_the_oldest_record_left(served: Served) -> None:
    client = served.client()
    produce(client, times=5)
    client.call(8, commit_request({("orders", 0): 3, ("orders", 1): 0}))
    served.advance(60)  # since the first record, as time begins with it
    seconds = of(scrape(served), "groupkeeper_group_lag_seconds", group="g", topic="orders")
    assert seconds == pytest.approx(60 - 3, abs=0.1)


def test_a_topic_that_no_member_subscribes_has_records_left_and_is_not_late(served: Served) -> None:
    client = served.client()
    produce(client, times=2)
    client.call(9, produce_request("payments", 2, b"value"))
    client.call(8, commit_request({("orders", 0): 1, ("payments", 2): 0}))
    name, of_payments = "groupkeeper_group_lag_seconds", {"group": "g", "topic": "payments"}
    assert of(scrape(served), name, **of_payments) >= 0
    settle(client)
    found = scrape(served)
    assert of(found, name, group="g", topic="orders") >= 0
    assert name not in with_labels(found, **of_payments)
    both = {"consumergroup": "g", "topic": "payments"}
    assert of(found, "kafka_consumergroup_lag_sum", **both) == 1


def test_a_group_has_series_until_it_is_gone(served: Served) -> None:
    client = served.client()
    assert not with_labels(scrape(served), group="g")
    client.commit(1)
    assert of(scrape(served), "groupkeeper_group_rebalances_total", group="g") == 0
    client.call(2, DeleteGroupsRequest(groups_names=["g"]))
    found = scrape(served)
    assert not with_labels(found, group="g")
    assert not with_labels(found, consumergroup="g")


def test_a_group_that_was_only_asked_for_has_no_series(served: Served) -> None:
    client = served.client()
    member_id = client.call(5, join_request("g", "")).member_id
    assert served.group().pending
    assert not with_labels(scrape(served), group="g")
    client.call(5, join_request("g", member_id))
    served.advance(1)
    assert with_labels(scrape(served), group="g")


def test_state_rebalances_and_the_last_cause(served: Served) -> None:
    client = served.client()
    settle(client)
    found = scrape(served)
    assert of(found, "kafka_consumergroup_members", consumergroup="g") == 1
    assert of(found, "groupkeeper_group_rebalances_total", group="g") == 1
    group = served.group()
    state = of(found, "groupkeeper_group_state_timestamp_seconds", group="g", state="Stable")
    assert state == group.state_timestamp_ms / 1000
    last = "groupkeeper_group_last_rebalance_timestamp_seconds"
    began = of(found, last, group="g", cause="member_joined")
    assert began == pytest.approx(state, abs=1)


def test_the_silence_of_static_members(served: Served) -> None:
    client, name = served.client(), "groupkeeper_group_static_member_silence_seconds"
    settle(client, "dynamic")
    settle(client, "g", group_instance_id="one")
    served.advance(5)
    found = scrape(served)
    assert of(found, name, group="g") == pytest.approx(5, abs=0.1)
    assert not [have for have in found if have == (name, frozenset({("group", "dynamic")}))]


# -- limits ----------------------------------------------------------------------------------------


def many(served: Served, count: int) -> None:
    client = served.client()
    for number in range(count):
        client.commit(number, f"g{number}")


PER_GROUP = 3 + 3 + 2
"""With one partition of one topic, without rebalances."""


def test_groups_beyond_the_limit_are_added_up(serve: Callable[..., Served], lines: Lines) -> None:
    served = serve("offsets.topic.num.partitions=4", f"metrics.max.series={2 * PER_GROUP}")
    client = served.client()
    produce(client, times=3)
    many(served, 5)
    found = scrape(served)
    groups = {dict(labels)["group"] for name, labels in found if "group" in dict(labels)}
    assert len(groups) == 2
    assert of(found, "groupkeeper_groups_without_series") == 3
    lag = sum(max(0, 3 - number) for number in range(5) if f"g{number}" not in groups)
    other = {"consumergroup": OTHER, "topic": OTHER}
    assert of(found, "kafka_consumergroup_lag_sum", **other) == lag
    assert of(found, "kafka_consumergroup_members", consumergroup=OTHER) == 0
    assert of(found, "kafka_topic_partitions", topic=OTHER) == 12
    assert of(found, "groupkeeper_topics_without_series") == 2
    told = [line for line in lines() if line["event"].startswith("not all ")]
    assert [(line["event"], line["limit"], line["without"]) for line in told] == [
        ("not all topics have series", "metrics.max.series", 2),
        ("not all groups have series", "metrics.max.series", 3),
    ]


def test_a_group_that_has_series_keeps_them(serve: Callable[..., Served], lines: Lines) -> None:
    served = serve("offsets.topic.num.partitions=1", f"metrics.max.series={PER_GROUP}")
    client, scrapes = served.client(), Scrapes(served)
    client.commit(1, "old")
    assert with_labels(scrapes.scrape(), group="old")
    client.call(2, DeleteGroupsRequest(groups_names=["old"]))
    client.commit(1, "new")
    client.commit(1, "old")  # now behind the new one
    assert with_labels(scrapes.scrape(), group="old")
    assert with_labels(scrapes.scrape(), group="old")
    assert sum(line["event"] == "not all groups have series" for line in lines()) == 1
    client.call(2, DeleteGroupsRequest(groups_names=["old"]))
    assert with_labels(scrapes.scrape(), group="new")


def test_without_series_there_are_sums_and_no_warning(
    serve: Callable[..., Served], lines: Lines
) -> None:
    served = serve("metrics.max.series=0")
    settle(served.client())
    found = scrape(served)
    assert not with_labels(found, group="g")
    assert of(found, "kafka_consumergroup_members", consumergroup=OTHER) == 1
    assert not [line for line in lines() if line["event"].startswith("not all ")]


# -- text ------------------------------------------------------------------------------------------


@dataclass
class MadeUp(Sight):
    """Groups that never were."""

    groups: list[str]
    topics: list[str] = field(default_factory=list)
    node_id: int = 7
    brokers: int = 1
    partitions: int = 1

    def group(self, group_id: str) -> Slices[GroupRow | None]:
        if group_id == "gone":
            return None
        yield
        lags = [LagRow(number, 5, 2, None) for number in range(self.partitions)]
        row = GroupRow(group_id, "Stable", 1_500, 1, 2, "member_left", 1_250, 500)
        row.topics, row.partitions, row.lag = {"t": lags}, len(lags), 2 * len(lags)
        return row

    def topic(self, name: str) -> Slices[TopicRow | None]:
        if name == "gone":
            return None
        yield
        return TopicRow(name, 2, {1: (3, 9)}, {1: ReplicaRow(3, False, 3, 2)})


def text(sight: Sight, most: int = 10_000) -> str:
    return b"".join(whole(Series(most).text(sight))).decode()


@pytest.mark.parametrize("name", ['say "g"', "back\\slash", "two\nlines", "größe"])
def test_names_of_groups_are_escaped(name: str) -> None:
    found = parsed(text(MadeUp([name])))
    assert of(found, "groupkeeper_group_rebalances_total", group=name) == 2
    assert of(found, "kafka_consumergroup_members", consumergroup=name) == 1


def test_what_is_gone_meanwhile_is_left_out() -> None:
    found = parsed(text(MadeUp(["gone", "g"], ["gone", "t"])))
    assert not with_labels(found, group="gone")
    assert not with_labels(found, topic="gone")
    assert of(found, "groupkeeper_groups_without_series") == 0


def test_an_unknown_lag_in_seconds_and_an_unreadable_log_have_no_sample() -> None:
    found = parsed(text(MadeUp(["g"], ["t"])))
    assert "groupkeeper_group_lag_seconds" not in {name for name, _ in found}
    ends = {labels for name, labels in found if name == "kafka_topic_partition_current_offset"}
    assert ends == {frozenset({("topic", "t"), ("partition", "1")})}


@pytest.mark.parametrize(("partition", "values"), [("0", (1, 7, 1, 1, 0)), ("1", (2, 3, 0, 3, 1))])
def test_replicas_are_those_that_are_known_or_one_of_this_node(
    partition: str, values: tuple[int, ...]
) -> None:
    found = parsed(text(MadeUp([], ["t"])))
    names = ("in_sync_replica", "leader", "leader_is_preferred", "replicas")
    names += ("under_replicated_partition",)
    where = {"topic": "t", "partition": partition}
    assert values == tuple(of(found, f"kafka_topic_partition_{each}", **where) for each in names)


def test_every_family_is_there_and_has_the_labels_that_it_says(served: Served) -> None:
    client = served.client()
    produce(client, times=5)
    settle(client, group_instance_id="one")
    client.commit(3, member_id=served.group().leader_id, generation=1)
    page = "".join(piece.decode() for piece in whole(Series(10_000).text(served.run(look(served)))))
    for family in text_string_to_metric_families(page):
        [sample, *_] = family.samples
        name = sample.name
        assert set(sample.labels) == documented_labels()[name], name
    assert page.count("# TYPE ") == len(FAMILIES)
    assert {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")} == set(
        FAMILIES
    )


def documented_labels() -> dict[str, set[str]]:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    ticked = [(re.findall("`(.*?)`", names), re.findall("`(.*?)`", some)) for names, some in cells]
    return {name: set(labels) for names, labels in ticked for name in names}


async def look(served: Served) -> Sight:
    assert served.server.metrics.look is not None
    return await served.server.metrics.look([])


def test_the_text_is_the_same_however_many_slices_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    sight = MadeUp([f"g{number}" for number in range(20)], ["t", "u"], partitions=30)
    before, slices = counted(Series(10_000).text(sight))
    monkeypatch.setattr(group_series, "LINES_IN_A_SLICE", 10)
    after, more = counted(Series(10_000).text(sight))
    assert b"".join(before) == b"".join(after)
    assert more > slices + 20 * 60 // 10
