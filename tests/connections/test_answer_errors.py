"""Which errors of answers are counted."""

from typing import Any

import pytest

from groupkeeper.connections import answer_errors
from groupkeeper.connections.answer_errors import count_errors
from groupkeeper.observe.metrics import AnswerErrors
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupkeeper.protocol.registry import APIS, Api
from groupkeeper.protocol.types import ArrayOf, StructOf
from tests.support.served import Served, settle

COMMIT, HEARTBEAT = 8, 12
NONE, UNKNOWN, TOO_LARGE = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
)


def counted(key: int, response: Any) -> dict[int, int]:
    counts = AnswerErrors()
    count_errors(counts, key, response)
    assert counts.answers[key] == bool(counts.by_code)
    return {code: count for (api, code), count in counts.by_code.items() if api == key}


def committed(*topics: list[ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=error)
                    for index, error in enumerate(errors)
                ],
            )
            for errors in topics
        ]
    )


def test_an_answer_without_error_is_not_counted() -> None:
    assert counted(HEARTBEAT, HeartbeatResponse()) == {}
    assert counted(COMMIT, committed([NONE, NONE], [NONE])) == {}


def test_an_error_of_the_answer() -> None:
    answer = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert counted(HEARTBEAT, answer) == {ErrorCode.UNKNOWN_MEMBER_ID: 1}


def test_errors_of_rows_count_once_each() -> None:
    answer = committed([NONE, UNKNOWN], [UNKNOWN, TOO_LARGE])
    assert counted(COMMIT, answer) == {UNKNOWN: 1, TOO_LARGE: 1}


def test_rows_that_are_made_later_have_the_error_of_the_first() -> None:
    made = []

    def row(index: int) -> OffsetCommitResponsePartition:
        made.append(index)
        return OffsetCommitResponsePartition(partition_index=index, error_code=UNKNOWN)

    topic = OffsetCommitResponseTopic(name="t", partitions=mapped(row, range(50)))
    assert counted(COMMIT, OffsetCommitResponse(topics=[topic])) == {UNKNOWN: 1}
    assert set(made) == {0}


def test_of_very_many_rows_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_errors, "ROWS_MOST", 2)
    assert counted(COMMIT, committed([NONE, UNKNOWN, TOO_LARGE])) == {UNKNOWN: 1}
    assert counted(COMMIT, committed([NONE], [NONE], [UNKNOWN])) == {}


def test_many_short_rows_of_rows_are_very_many_rows_together() -> None:
    """In an answer of half a million, all of them would take 8 ms."""
    looked_at = 0

    class Row:
        @property
        def error_code(self) -> int:
            nonlocal looked_at
            looked_at += 1
            return 0

    row: Any = Row()
    topic = OffsetCommitResponseTopic(name="t", partitions=[row] * 100)
    assert counted(COMMIT, OffsetCommitResponse(topics=[topic] * 100)) == {}
    assert looked_at <= 3 * answer_errors.ROWS_MOST


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_error_of_every_api_is_found(api: Api) -> None:
    for path in paths(api.response_type):
        answer = with_error(api.response_type, path)
        assert counted(api.key, answer) == {7: 1}, path


def paths(cls: type) -> list[tuple[str, ...]]:
    """The ways to all fields with an error."""
    found: list[tuple[str, ...]] = []
    for field in layout_of(cls).fields:
        if field.name == "error_code":
            found.append((field.name,))
        kind = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if isinstance(kind, StructOf):
            found += [(field.name, *rest) for rest in paths(kind.cls)]
    return found


def with_error(cls: type, path: tuple[str, ...]) -> Any:
    name, *rest = path
    if not rest:
        return cls(**{name: 7})
    [field] = [field for field in layout_of(cls).fields if field.name == name]
    if isinstance(field.type, ArrayOf):
        return cls(**{name: [with_error(field.type.item.cls, tuple(rest))]})
    return cls(**{name: with_error(field.type.cls, tuple(rest))})


def test_a_server_counts_its_answers(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    for at in (generation, generation, generation, generation + 1):
        client.beat(member_id, at)
    assert client.commit(1, member_id="nobody", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    errors = served.server.metrics.answer_errors.by_code
    assert errors == {
        (HEARTBEAT, ErrorCode.ILLEGAL_GENERATION): 1,
        (COMMIT, ErrorCode.UNKNOWN_MEMBER_ID): 1,
    }
