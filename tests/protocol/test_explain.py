"""The reasons given for a message that cannot be written."""

from groupkeeper.protocol.explain import explain
from groupkeeper.protocol.mapped import bulk, mapped
from groupkeeper.protocol.messages.fetch import LeaderIdAndEpoch, PartitionData
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from groupkeeper.protocol.messages.metadata import MetadataResponse


def reason(message: object, version: int = 0) -> str:
    return str(explain(message, version, ValueError("the struct module's words")))


def test_something_else_is_no_message() -> None:
    assert reason("hello") == "not a message: 'hello'"


def test_text_with_a_lone_surrogate_is_no_utf_8() -> None:
    assert "group_id must be UTF-8" in reason(HeartbeatRequest(group_id="\ud800"))


def test_a_list_must_be_a_list() -> None:
    assert "brokers must be a list, not 7" in reason(MetadataResponse(brokers=7))  # type: ignore[arg-type]


def test_a_nested_struct_is_looked_into() -> None:
    data = PartitionData(current_leader=LeaderIdAndEpoch(leader_id="x"))  # type: ignore[arg-type]
    assert "current_leader: leader_id must be int32, not" in reason(data, 12)


def test_a_message_without_visible_fault_keeps_the_words_of_the_error() -> None:
    assert reason(HeartbeatRequest()) == "HeartbeatRequest v0: the struct module's words"


def test_rows_that_are_made_as_they_are_read_are_looked_at_like_those_of_a_list() -> None:
    rows = [ListedGroup(group_id="g"), ListedGroup(group_id=None)]  # type: ignore[arg-type]
    for groups in (rows, bulk(rows), mapped(lambda row: row, rows)):
        told = reason(ListGroupsResponse(groups=groups))
        assert told.endswith("groups[1]: group_id must not be null")
