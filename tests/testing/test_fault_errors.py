"""Errors by rule: in every API, for what the rule names, with no effect and the rest handled."""

from typing import Any

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import fields_in, layout_of
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, StructOf
from groupkeeper.testing import effects
from groupkeeper.testing.faults.levels import answer_levels_of, levels_of
from tests.support.requests import (
    codes_of,
    fetch_request,
    flat_fetch_request,
    heartbeat,
    join_request,
    offset_delete_request,
)
from tests.support.wire import Gone
from tests.testing.wired import (
    commit,
    committed,
    dial,
    ends,
    metadata_request,
    produce_request,
    wired,
)

UNKNOWN_MEMBER_ID = 25
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_error_can_be_given_to_every_version_of_every_api() -> None:
    with wired() as (broker, client):
        for api in APIS.values():
            for version in range(api.served[0], api.served[1] + 1):
                rule = broker.fault(effects.error("POLICY_VIOLATION"), api=api.name)
                answer = client.call(version, _sample(api.request_type, version))
                found = _errors(answer, version)
                assert found, (
                    f"no rows in the answer to {api.name} v{version}: `_sample` fills the arrays "
                    "of _ARRAYS in groupkeeper/testing/faults/levels.py; let it fill those of the "
                    "API, too"
                )
                assert found == {ErrorCode.POLICY_VIOLATION}, (api, version)
                assert rule.hits == 1
                rule.remove()


def test_levels_of_a_request_name_what_those_of_its_response_name() -> None:
    """Faults split both by the same rows."""
    for api in APIS.values():
        for version in range(api.served[0], api.served[1] + 1):
            asked = levels_of(api.request_type, version)[1:]
            answered = answer_levels_of(api.request_type, version)[1:]
            for one, other in zip(asked, answered, strict=False):
                assert {*other.kinds.values()} <= {*one.kinds.values()}, (
                    f"{api.name} v{version}: rows of {one.array!r} in the request do not name what "
                    f"rows of {other.array!r} in the response name, so _ARRAYS of "
                    "groupkeeper/testing/faults/levels.py may not have both"
                )


def _sample(cls: type, version: int) -> Any:
    """A request with one item in each array on its chain of levels."""
    levels = levels_of(cls, version)
    item: Any = None
    for level, below in zip(reversed(levels), [None, *reversed(levels[1:])], strict=True):
        if level.cls is None:
            item = 0 if level.kinds[""].value == "partition" else "orders"
            continue
        above = level.cls()
        for name in ("group_id", "key", "name", "topic"):
            if name in level.fields:
                setattr(above, name, "orders")
        if below is not None:
            setattr(above, below.array or "", [item])
        item = above
    if layout_of(cls).key == ApiKey.PRODUCE:
        item.acks = 1
    if layout_of(cls).key == ApiKey.DESCRIBE_TRANSACTIONS:
        item.transactional_ids = ["t"]
    return item


def _errors(answer: Any, version: int) -> set[int]:
    found = set()
    for field in [*fields_in(type(answer), version)[0]]:
        value = getattr(answer, field.name)
        kind = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if field.name == "error_code":
            found.add(value)
        elif isinstance(kind, StructOf) and isinstance(field.type, ArrayOf):
            for each in value or ():
                found |= _errors(each, version)
    return found - {0}


def codes(rows: Any, name: str = "group_id") -> dict[str, int]:
    """Error code of each row by its name."""
    return {getattr(each, name): each.error_code for each in rows}


# -- batches ---------------------------------------------------------------------------------------


def test_a_commit_stores_all_but_the_matched_partition() -> None:
    places = {("orders", 0): 1, ("orders", 1): 2, ("orders", 2): 3, ("payments", 0): 4}
    with wired() as (broker, client):
        broker.fault(effects.error(DENIED.name), group="g", topic="orders", partition=1)
        assert list(commit(client, places)) == list(places)
        assert commit(client, places) == dict.fromkeys(places, 0) | {("orders", 1): DENIED}
        assert committed(client) == {("orders", 0): 1, ("orders", 2): 3, ("payments", 0): 4}
        assert set(commit(client, places, "other").values()) == {0}


def test_a_produce_appends_all_but_the_matched_partition() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("NOT_LEADER_OR_FOLLOWER"), api="Produce", partition=1)
        request = produce_request([("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)])
        answer = client.call(9, request)
        assert [
            (topic.name, each.index, each.error_code, each.base_offset)
            for topic in answer.responses
            for each in topic.partition_responses
        ] == [("orders", 0, 0, 0), ("orders", 1, 6, -1), ("orders", 2, 0, 0), ("payments", 0, 0, 0)]
        assert ends(client) == {0: 1, 1: 0, 2: 1}


def test_a_produce_without_acks_ends_the_connection_as_in_kafka() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("NOT_LEADER_OR_FOLLOWER"), partition=1, api="Produce")
        client.send(9, produce_request([("orders", 0), ("orders", 1)], acks=0))
        with pytest.raises((Gone, ConnectionError)):
            client.read_frame()
        with dial(broker) as other:
            assert ends(other) == {0: 1, 1: 0, 2: 0}


def test_a_fetch_answers_at_once_with_the_error_and_the_records_of_the_others() -> None:
    with wired() as (broker, client):
        client.call(9, produce_request([("orders", 0)]))
        [topic_id] = [each.topic_id for each in client.call(12, metadata_request("orders")).topics]
        broker.fault(
            effects.error("NOT_LEADER_OR_FOLLOWER"), api="Fetch", topic="orders", partition=1
        )
        wanted = [FetchPartition(partition=at, partition_max_bytes=1000) for at in (1, 0)]
        for version, topic in (
            (11, FetchTopic(topic="orders", partitions=wanted)),
            (13, FetchTopic(topic_id=topic_id, partitions=wanted)),
        ):
            request = FetchRequest(
                replica_id=-1, max_wait_ms=60_000, min_bytes=9_999, session_epoch=-1, topics=[topic]
            )
            answer = client.call(version, request)
            [found] = answer.responses
            assert not answer.error_code
            assert found.topic_id == (topic_id if version == 13 else bytes(16))
            assert [
                (each.partition_index, each.error_code, bool(each.records), each.high_watermark)
                for each in found.partitions
            ] == [(1, 6, False, -1), (0, 0, True, 1)]
            assert found.partitions[0].records == b""  # null is no answer to librdkafka


def test_a_session_error_is_that_of_the_whole_fetch() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("FETCH_SESSION_ID_NOT_FOUND"), api="Fetch")
        answer = client.call(11, FetchRequest(replica_id=-1, session_epoch=-1))
        assert (answer.error_code, answer.responses) == (70, [])


def test_list_offsets_has_the_error_of_one_partition() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error(DENIED.name), api="ListOffsets", partition=1)
        assert ends(client) == {0: 0, 1: -1, 2: 0}


@pytest.mark.parametrize(("group", "where"), [("b", "group"), (None, "partition")])
def test_one_of_several_groups_of_an_offset_fetch(group: str | None, where: str) -> None:
    with wired() as (broker, client):
        for each in "abc":
            commit(client, {("orders", 0): 1, ("orders", 1): 2}, each)
        named: Any = {"group": "b"} if group else {"group": "b", "partition": 1}
        broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetFetch", **named)
        answer = client.call(8, fetch_request("a", "b", "c", topics={"orders": [0, 1]}))
        assert [each.group_id for each in answer.groups] == ["a", "b", "c"]
        codes = [each.error_code for each in answer.groups]
        found = [
            [(each.committed_offset, each.error_code) for each in topic.partitions]
            for group in answer.groups
            for topic in group.topics
        ]
        whole = [(1, 0), (2, 0)]
        if where == "group":
            assert (codes, found) == ([0, 16, 0], [whole, whole])
        else:
            assert (codes, found) == ([0, 0, 0], [whole, [(1, 0), (-1, 16)], whole])


def test_all_offsets_of_a_group_are_those_of_any_topic() -> None:
    with wired() as (broker, client):
        commit(client, {("orders", 0): 1, ("payments", 0): 2})
        broker.fault(effects.error(DENIED.name), api="OffsetFetch", topic="orders")
        [group] = client.call(8, fetch_request("g")).groups
        assert {
            (topic.name, each.committed_offset, each.error_code)
            for topic in group.topics
            for each in topic.partitions
        } == {("orders", -1, DENIED), ("payments", 2, 0)}


def test_older_offset_fetches_have_the_error_of_the_whole_or_of_each_partition() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("NOT_COORDINATOR"), group="g")
        asked = flat_fetch_request("g", {"orders": [0, 1]})
        answer = client.call(5, asked)
        assert (answer.error_code, answer.topics) == (16, [])
        assert codes_of(client.call(1, asked)) == {("orders", 0): 16, ("orders", 1): 16}


def test_offsets_are_deleted_but_for_the_matched_one() -> None:
    with wired() as (broker, client):
        commit(client, {("orders", 0): 1, ("orders", 1): 2})
        error = effects.error("GROUP_SUBSCRIBED_TO_TOPIC")
        broker.fault(error, api="OffsetDelete", topic="orders", partition=0)
        answer = client.call(0, offset_delete_request([("orders", 0), ("orders", 1)]))
        assert (answer.error_code, codes_of(answer)) == (0, {("orders", 0): 86, ("orders", 1): 0})
        assert committed(client) == {("orders", 0): 1}


def test_one_member_of_a_batch_does_not_leave() -> None:
    with wired() as (broker, client):
        members = [MemberIdentity(group_instance_id=f"i{at}") for at in range(3)]
        settings = client.call(9, join_request(group_instance_id="i1"))
        assert settings.error_code == 0
        broker.fault(effects.error("GROUP_AUTHORIZATION_FAILED"), api="LeaveGroup", member="i1")
        answer = client.call(5, LeaveGroupRequest(group_id="g", members=members))
        expected = {"i0": UNKNOWN_MEMBER_ID, "i1": 30, "i2": UNKNOWN_MEMBER_ID}
        assert codes(answer.members, "group_instance_id") == expected
        [group] = client.call(5, DescribeGroupsRequest(groups=["g"])).groups
        assert [each.group_instance_id for each in group.members] == ["i1"]


def test_groups_are_deleted_and_described_but_for_the_matched_one() -> None:
    with wired() as (broker, client):
        for each in "abc":
            commit(client, {("orders", 0): 1}, each)
        rule = broker.fault(effects.error("NOT_COORDINATOR"), group="b")
        described = client.call(5, DescribeGroupsRequest(groups=["a", "b", "c"]))
        assert codes(described.groups) == {"a": 0, "b": 16, "c": 0}
        answer = client.call(2, DeleteGroupsRequest(groups_names=["a", "b", "c"]))
        assert codes(answer.results) == {"a": 0, "b": 16, "c": 0}
        rule.remove()
        assert committed(client, "b") == {("orders", 0): 1}


def test_find_coordinator_has_one_error_of_several_keys() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("COORDINATOR_NOT_AVAILABLE"), api="FindCoordinator", group="b")
        answer = client.call(4, FindCoordinatorRequest(coordinator_keys=["a", "b", "c"]))
        assert [
            (each.key, each.error_code, each.node_id, each.port > 0) for each in answer.coordinators
        ] == [("a", 0, 0, True), ("b", 15, -1, False), ("c", 0, 0, True)]
        single = client.call(3, FindCoordinatorRequest(key="b"))
        assert (single.error_code, single.node_id, single.port) == (15, -1, -1)
        transaction = client.call(3, FindCoordinatorRequest(key="b", key_type=1))
        assert transaction.error_code != 15


def test_topics_are_created_and_deleted_but_for_the_matched_one() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("POLICY_VIOLATION"), topic="b")
        topics = [CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in "abc"]
        made = client.call(7, CreateTopicsRequest(topics=topics, timeout_ms=1000))
        assert codes(made.topics, "name") == {"a": 0, "b": 44, "c": 0}
        assert "fault rule" in made.topics[1].error_message
        ids = {each.name: each.topic_id for each in made.topics}
        assert not any(ids["b"])
        states = [DeleteTopicState(topic_id=ids["a"]), DeleteTopicState(name="b")]
        gone = client.call(6, DeleteTopicsRequest(topics=states, timeout_ms=1000))
        assert codes(gone.responses, "name") == {"a": 0, "b": 44}
        old = client.call(3, DeleteTopicsRequest(topic_names=["c", "b"], timeout_ms=1000))
        assert codes(old.responses, "name") == {"c": 0, "b": 44}


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_metadata_has_the_error_of_one_topic_and_does_not_create_it(version: int) -> None:
    with wired() as (broker, client):
        rule = broker.fault(effects.error("LEADER_NOT_AVAILABLE"), api="Metadata", topic="new")
        answer = client.call(version, metadata_request("orders", "new", "payments"))
        assert [(each.name, each.error_code, len(each.partitions)) for each in answer.topics] == [
            ("orders", 0, 3),
            ("new", 5, 0),
            ("payments", 0, 1),
        ]
        alone = client.call(version, metadata_request("new"))
        assert codes(alone.topics, "name") == {"new": 5}
        assert len(alone.brokers) == 1
        rule.remove()
        everything = MetadataRequest(topics=None if version else [])
        assert "new" not in {each.name for each in client.call(version, everything).topics}


def test_topics_by_id_are_those_of_their_name() -> None:
    with wired() as (broker, client):
        [orders] = client.call(12, metadata_request("orders")).topics
        broker.fault(effects.error(DENIED.name), api="Metadata", topic="orders")
        asked = [
            MetadataRequestTopic(topic_id=each, name=None) for each in (b"x" * 16, orders.topic_id)
        ]
        answer = client.call(12, MetadataRequest(topics=asked))
        assert codes(answer.topics, "name") == {None: 100, "orders": DENIED}
        every = codes(client.call(12, MetadataRequest(topics=None)).topics, "name")
        assert every["orders"] == DENIED
        assert not any(code for name, code in every.items() if name != "orders")


def test_one_partition_of_metadata_has_an_error() -> None:
    with wired() as (broker, client):
        broker.fault(
            effects.error("LEADER_NOT_AVAILABLE"), topic="orders", partition=1, api="Metadata"
        )
        [orders, payments] = client.call(9, metadata_request("orders", "payments")).topics
        assert [each.error_code for each in orders.partitions] == [0, 5, 0]
        assert orders.error_code == payments.error_code == payments.partitions[0].error_code == 0


def test_later_rules_get_what_earlier_ones_leave() -> None:
    with wired() as (broker, client):
        first = broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", partition=0)
        broker.fault(effects.error(DENIED.name), api="OffsetCommit", topic="orders")
        places = {("orders", 0): 1, ("orders", 1): 1, ("payments", 0): 1}
        assert list(commit(client, places).values()) == [16, DENIED, 16]
        first.remove()
        assert list(commit(client, places).values()) == [DENIED, DENIED, 0]


def test_an_error_of_a_member_is_answered_without_a_step() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("UNKNOWN_MEMBER_ID"), api="Heartbeat", member="m")
        assert client.call(4, heartbeat("m", 1)).error_code == UNKNOWN_MEMBER_ID
        joined = client.call(9, join_request())
        assert joined.error_code == 79


def test_a_config_resource_is_a_topic_by_its_type() -> None:
    topic, node = 2, 4
    with wired() as (broker, client):
        broker.fault(effects.error(DENIED.name), topic="0", may_miss=True)
        broker.fault(effects.error(DENIED.name), topic="orders")
        asked = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
            for kind, name in ((node, "0"), (topic, "orders"), (topic, "payments"))
        ]
        answer = client.call(4, DescribeConfigsRequest(resources=asked))
        expected = {"0": 0, "orders": DENIED, "payments": 0}
        assert codes(answer.results, "resource_name") == expected
