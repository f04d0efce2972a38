"""What is long takes turns: many requests at once, long requests, long answers, and their limits.

The clock stands still unless a handler takes time, so what fits into a turn is the same everywhere.
"""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from groupkeeper.apis.table import long_answers
from groupkeeper.connections import call as call_module
from groupkeeper.connections.budget import LONG_REQUEST_BYTES
from groupkeeper.connections.connection import BEATS, SLICED_REQUEST_BYTES, SLOW_TURN_S
from groupkeeper.connections.connection_table import TRANSITIONS, ConnectionState
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.heartbeat import Beat
from groupkeeper.coordinator.member import Member
from groupkeeper.exchange import Response
from groupkeeper.groups.topic_check import Moment
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import FREED_IN_A_SLICE, bulk
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.protocol.registry import response_encoder
from groupkeeper.turns import TURN_S, Slices
from tests.support.fake_socket import HEARTBEAT, LIMIT, PRODUCE, Bench, beat, join
from tests.support.served import Lines

MEMBER = Member("m", None, "", "", 10_000, 10_000, [])

FETCH, DESCRIBE, DELETE = ApiKey.FETCH, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS


def describe(bench: Bench, *group_ids: str) -> bytes:
    return bench.frame(5, DescribeGroupsRequest(groups=list(group_ids)))


def delete(bench: Bench, *group_ids: str) -> bytes:
    return bench.frame(2, DeleteGroupsRequest(groups_names=list(group_ids)))


def delete_in_turns(bench: Bench, seen: list[Any] | None = None) -> None:
    """Let every DeleteGroups take a turn; note those that are done."""

    def handle(request: Any, *_: Any) -> Slices[Response]:
        bench.clock.time += TURN_S
        yield
        if seen is not None:
            seen.append(request)
        return DeleteGroupsResponse()

    bench.routes[DELETE] = handle


def slow(bench: Bench, seconds: float) -> None:
    """Let every heartbeat take so long."""

    def handle(*_: Any) -> HeartbeatResponse:
        bench.clock.time += seconds
        return HeartbeatResponse()

    bench.routes[HEARTBEAT] = handle


async def iterations(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- many requests at once -------------------------------------------------------------------------


async def test_a_turn_ends_and_the_rest_is_answered_in_the_next_ones(bench: Bench) -> None:
    slow(bench, 0.6 * TURN_S)
    bench.receive(b"".join(beat(bench) for _ in range(7)))
    assert bench.answered() == [1, 2]
    await iterations(1)
    assert bench.answered() == [1, 2, 3, 4]
    await iterations(2)
    assert bench.answered() == [1, 2, 3, 4, 5, 6, 7]
    assert bench.connection.state is ConnectionState.READING


async def test_a_client_that_is_gone_has_turns_as_well(bench: Bench) -> None:
    slow(bench, TURN_S)
    bench.receive(join(bench) + b"".join(beat(bench) for _ in range(5)))
    bench.socket.hang_up()
    await iterations(1)
    bench.parked[0].answer(JoinGroupResponse())
    before = bench.clock.time
    await iterations(1)
    assert bench.clock.time == before + TURN_S
    await iterations(6)
    assert bench.connection.state is ConnectionState.CLOSED


async def test_another_client_is_answered_between_two_turns(bench: Bench) -> None:
    slow(bench, TURN_S)
    other, socket = bench.connect()
    bench.receive(b"".join(beat(bench) for _ in range(100)))
    question = beat(bench)
    other.data_received(question)
    assert bench.answered(socket) == [101]
    assert len(bench.answered()) == 1


async def test_those_who_want_more_take_turns(bench: Bench) -> None:
    slow(bench, TURN_S)
    other, socket = bench.connect()
    bench.receive(b"".join(beat(bench) for _ in range(10)))
    other.data_received(b"".join(beat(bench) for _ in range(10)))
    for _ in range(6):
        await iterations(1)
        assert abs(len(bench.answered()) - len(bench.answered(socket))) <= 1
    assert len(bench.answered()) + len(bench.answered(socket)) == 2 + 6


async def test_repeated_heartbeats_end_a_turn_as_well(bench: Bench) -> None:
    frame = beat(bench)
    bench.receive(frame)

    class Steady:
        def matches(self, *_: Any) -> bool:
            return True

        def answer(self, data: bytes, pos: int) -> bytes:
            return bench.socket.writes[0]

    bench.connection._steady = Steady()  # type: ignore[assignment]  # as a group would make one
    bench.receive(frame * (BEATS + 10))
    assert len(bench.answered()) == 1 + BEATS
    await iterations(1)
    assert len(bench.answered()) == 1 + BEATS + 10


async def test_nothing_new_is_begun_late_in_an_iteration(bench: Bench) -> None:
    bench.turns.until = bench.clock.time
    bench.receive(beat(bench))
    assert bench.answered() == []
    bench.turns.until = bench.clock.time + 1
    await iterations(1)
    assert bench.answered() == [1]


async def test_a_repeated_heartbeat_is_never_late(bench: Bench) -> None:
    beaten: list[int] = []

    class Partition:
        def steady_beat(self, request: object) -> Beat:
            return Beat(Group("g", 0), MEMBER, 0, Timer(TimerKind.SESSION, "g", "m"), 1_000)

        def beat(self, beat: Beat, now: int) -> bool:
            beaten.append(now)
            return True

    class Driver:
        active = Partition()

    bench.services.steady = lambda group_id: (Driver(), Moment())
    frame = beat(bench)
    bench.receive(frame)
    bench.turns.until = bench.clock.time
    bench.receive(frame)
    assert bench.answered() == [1, 1]
    assert len(beaten) == 1
    bench.receive(frame + frame)
    assert bench.answered() == [1, 1], "two are not one"


async def test_half_a_request_late_in_an_iteration_is_answered_with_its_rest(bench: Bench) -> None:
    frame = beat(bench)
    bench.turns.until = bench.clock.time
    bench.receive(frame[:10])
    bench.turns.until = bench.clock.time + 1
    await iterations(1)
    bench.receive(frame[10:])
    assert bench.answered() == [1]


async def test_a_slow_request_is_told_with_its_api_and_client(bench: Bench, lines: Lines) -> None:
    slow(bench, 2 * SLOW_TURN_S)
    bench.receive(beat(bench))
    assert bench.stats.slow_turns == 1
    [line] = lines()
    assert (line["event"], line["api"], line["client_id"]) == (
        "slow request",
        "Heartbeat",
        "tester",
    )
    assert line["took_ms"] == 200


# -- long requests ---------------------------------------------------------------------------------

MANY = [f"group-{n:05}" for n in range(3_000)]
assert len("".join(MANY)) > SLICED_REQUEST_BYTES


def count_slices(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, took: float
) -> list[int]:
    """Every slice of a codec takes time from now on, and is counted."""
    counted: list[int] = []
    original = getattr(call_module, name)

    def sliced(key: int, version: int) -> Any:
        def run(*args: Any) -> Any:
            work = original(key, version)(*args)
            while True:
                try:
                    piece = next(work)
                except StopIteration as end:
                    return end.value
                bench.clock.time += took
                counted.append(key)
                yield piece

        return run

    monkeypatch.setattr(call_module, name, sliced)
    return counted


async def test_a_long_request_is_decoded_in_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def handle(request: Any, *_: Any) -> Response:
        seen.append(request)
        return DeleteGroupsResponse()

    bench.routes[DELETE] = handle
    counted = count_slices(bench, monkeypatch, "sliced_request_decoder", TURN_S)
    bench.receive(delete(bench, *MANY) + beat(bench))
    assert bench.connection.state is ConnectionState.WORKING
    other, socket = bench.connect()
    question = beat(bench)
    other.data_received(question)
    assert bench.answered(socket) == [3]
    await iterations(20)
    assert len(counted) > 5
    assert [each.groups_names for each in seen] == [MANY]
    assert bench.answered() == [1, 2]
    assert bench.limits.sliced.used == bench.limits.requests.used == 0


async def test_a_handler_may_work_in_slices(bench: Bench) -> None:
    def handle(request: Any, *_: Any) -> Slices[Response]:
        for _ in range(4):
            bench.clock.time += TURN_S
            yield
        return HeartbeatResponse(error_code=27)

    bench.routes[HEARTBEAT] = handle
    bench.receive(beat(bench) + beat(bench))
    assert bench.connection.state is ConnectionState.WORKING
    await iterations(3)
    assert bench.answers() == []
    await iterations(6)
    assert bench.answers() == [(n, HeartbeatResponse(error_code=27)) for n in (1, 2)]


async def test_a_handler_in_slices_may_answer_later(bench: Bench) -> None:
    def handle(request: Any, caller: Any, reply_to: Any) -> Slices[None]:
        yield
        bench.parked.append(reply_to)

    bench.routes[HEARTBEAT] = handle
    bench.receive(beat(bench))
    assert bench.connection.state is ConnectionState.WAITING
    bench.parked[0].answer(HeartbeatResponse())
    assert bench.answered() == [1]


async def test_a_handler_in_slices_may_have_answered_before_its_end(bench: Bench) -> None:
    def handle(request: Any, caller: Any, reply_to: Any) -> Slices[None]:
        yield
        reply_to.answer(HeartbeatResponse())
        bench.clock.time += TURN_S
        yield

    bench.routes[HEARTBEAT] = handle
    bench.receive(beat(bench) + beat(bench))
    await iterations(4)
    assert bench.answered() == [1, 2]
    assert bench.connection.state is ConnectionState.READING


async def test_a_bug_in_a_slice_costs_its_connection(bench: Bench, lines: Lines) -> None:
    def handle(*_: Any) -> Slices[None]:
        bench.clock.time += TURN_S
        yield
        raise ValueError("a bug")

    bench.routes[HEARTBEAT] = handle
    bench.receive(beat(bench) + beat(bench))
    await iterations(3)
    assert bench.socket.closed
    assert [line["event"] for line in lines()] == ["request failed"]
    assert bench.limits.requests.used == 0


async def test_garbage_in_a_long_request_closes_the_connection(bench: Bench, lines: Lines) -> None:
    frame = delete(bench, *MANY)
    bench.routes[DELETE] = bench.routes[HEARTBEAT]
    bench.receive(frame[:-9] + b"\xff" * 9)
    await iterations(3)
    assert bench.socket.closed
    assert lines()[0]["event"] == "connection refused"
    assert bench.limits.sliced.used == 0


async def test_who_hangs_up_during_a_long_request_is_still_obeyed(bench: Bench) -> None:
    seen: list[Any] = []

    delete_in_turns(bench, seen)
    bench.receive(delete(bench, *MANY) + beat(bench, "last"))
    bench.socket.hang_up()
    await iterations(6)
    assert len(seen) == 1
    assert [request.group_id for request in bench.requests] == ["last"]
    assert bench.connection.state is ConnectionState.CLOSED
    assert not bench.table.orphans
    assert bench.limits.sliced.used == bench.limits.requests.used == 0


async def test_only_so_much_is_worked_on_at_a_time(bench: Bench) -> None:
    """As objects, long requests take far more memory than on the wire."""
    delete_in_turns(bench)
    frames = [delete(bench, *MANY) for _ in range(2)]
    bench.limits.sliced.limit = len(frames[0]) + 100  # a shorter class than that of long ones
    other, socket = bench.connect()
    bench.receive(frames[0])
    other.data_received(frames[1])
    assert bench.connection.state is ConnectionState.WORKING
    assert other.state is ConnectionState.QUEUED
    assert bench.turns.waiting == 1
    await iterations(8)
    assert (bench.answered(), bench.answered(socket)) == ([1], [2])
    assert bench.limits.sliced.used == 0


# -- long answers ----------------------------------------------------------------------------------


def groups(count: int, size: int = 10) -> DescribeGroupsResponse:
    group = DescribedGroup(group_id="g" * size, group_state="Stable")
    return DescribeGroupsResponse(groups=[group] * count)


@pytest.mark.parametrize("when", ["encoded", "gone", "closed"])
async def test_what_takes_long_to_free_is_freed_in_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The rows of an answer that was written; that nobody reads; that is too long."""
    rows = [DescribedGroup(group_id=f"g{number}") for number in range(3 * FREED_IN_A_SLICE)]
    bench.routes[DESCRIBE] = lambda *_: bench.parked.append(_[2])
    bench.receive(describe(bench, "g"))
    if when == "gone":
        bench.socket.hang_up()
        await iterations(1)
    if when == "closed":
        monkeypatch.setattr(call_module, "ANSWER_BYTES", 100)
    bench.parked[0].answer(DescribeGroupsResponse(groups=bulk(rows)))
    monkeypatch.setattr("groupkeeper.turns.TURN_S", 0.0)
    left = [len(rows)]
    for _ in range(100):
        await iterations(1)
        left.append(len(rows))
    assert not rows
    assert max(before - after for before, after in pairwise(left)) == FREED_IN_A_SLICE
    assert bench.answered() == ([1] if when == "encoded" else [])


def test_the_apis_with_long_answers_have_names() -> None:
    assert {call_module.api_name(key) for key in long_answers()} >= {"Metadata", "DescribeGroups"}


async def test_a_long_answer_is_encoded_in_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.routes[DESCRIBE] = lambda *_: groups(5_000)
    counted = count_slices(bench, monkeypatch, "sliced_response_encoder", TURN_S)
    bench.receive(describe(bench, "g") + beat(bench))
    assert bench.connection.state is ConnectionState.WORKING
    assert bench.limits.unsent.used > 0
    await iterations(100)
    assert len(counted) > 10
    (_, described), (second, _) = bench.answers()
    assert described == groups(5_000)
    assert second == 2
    assert bench.limits.unsent.used == 0


async def test_a_long_answer_that_comes_later_is_encoded_in_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller of `answer` may have others to answer."""
    bench.routes[DESCRIBE] = lambda request, caller, reply_to: bench.parked.append(reply_to)
    count_slices(bench, monkeypatch, "sliced_response_encoder", TURN_S)
    bench.receive(describe(bench, "g") + beat(bench))
    bench.parked[0].answer(groups(5_000))
    assert bench.answers() == []
    await iterations(100)
    assert bench.answered() == [1, 2]


async def test_a_long_answer_leaves_as_the_client_takes_it(bench: Bench) -> None:
    bench.routes[DESCRIBE] = lambda *_: groups(5_000, 200)
    bench.socket.full = True
    bench.receive(describe(bench, "g") + beat(bench))
    await iterations(20)
    written = sum(map(len, bench.socket.writes))
    assert written < 300_000, "the rest would only lie in the transport"
    assert bench.limits.unsent.used > 700_000
    assert bench.connection.state is ConnectionState.BLOCKED
    bench.socket.drain()
    await iterations(2)
    assert bench.answered() == [1, 2]
    assert bench.limits.unsent.used == 0


async def test_an_answer_longer_than_clients_take_closes_the_connection(
    bench: Bench, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "ANSWER_BYTES", 100_000)
    bench.routes[DESCRIBE] = lambda *_: groups(20_000)
    bench.receive(describe(bench, "g"))
    await iterations(20)
    assert bench.socket.closed
    [line] = lines()
    assert line["received"] == "an answer to DescribeGroups that is too long"
    assert line["limit"] == "100000 bytes"
    assert bench.limits.unsent.used == 0


async def test_long_requests_do_not_stand_in_the_way_of_shorter_ones(bench: Bench) -> None:
    delete_in_turns(bench)
    bench.limits.sliced_long.limit = 1
    long = [delete(bench, *MANY, "x" * 30_000, "y" * 30_000) for _ in range(2)]
    assert len(long[0]) > LONG_REQUEST_BYTES
    for frame in long:
        connection, _ = bench.connect()
        connection.data_received(frame)
    bench.receive(delete(bench, *MANY))
    assert bench.connection.state is ConnectionState.WORKING
    await iterations(8)
    assert bench.answered() == [3]


async def test_with_too_many_answers_only_the_oldest_is_encoded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.routes[DESCRIBE] = lambda *_: groups(5_000)
    counted = count_slices(bench, monkeypatch, "sliced_response_encoder", TURN_S)
    bench.limits.unsent.limit = 10_000
    other, socket = bench.connect()
    bench.receive(describe(bench, "g"))
    other.data_received(describe(bench, "g"))
    while not bench.answered():
        await iterations(1)
    first = len(counted)
    assert bench.answered(socket) == []
    await iterations(200)
    assert bench.answered(socket) == [2]
    assert len(counted) > 1.5 * first
    assert bench.limits.unsent.used == 0
    assert not bench.limits.encoding


async def test_a_client_that_goes_takes_its_long_answer_along(bench: Bench) -> None:
    bench.routes[DESCRIBE] = lambda *_: groups(5_000, 200)
    bench.socket.full = True
    bench.receive(describe(bench, "g"))
    await iterations(20)
    bench.socket.hang_up()
    await iterations(1)
    assert bench.limits.unsent.used == 0
    assert bench.connection.state is ConnectionState.CLOSED


# -- how long a request may be ---------------------------------------------------------------------


def limit_requests(bench: Bench) -> None:
    bench.limits.request_bytes = 10_000
    bench.connection._most = 10_004


@pytest.mark.parametrize("split", [4, 5, 6, 100])
async def test_a_long_request_is_refused_in_its_own_form(
    bench: Bench, lines: Lines, split: int
) -> None:
    limit_requests(bench)
    frame = beat(bench, "g" * 20_000)
    bench.receive(frame[:split], frame[split:200], frame[200:])
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.answers() == [(1, HeartbeatResponse(error_code=error))]
    assert not bench.requests
    [line] = lines()
    assert (line["event"], line["api"], line["most"]) == ("limit reached", "Heartbeat", 10_000)


@pytest.mark.parametrize("split", [4, 5, 6, 100])
async def test_what_is_not_known_may_not_be_long(bench: Bench, lines: Lines, split: int) -> None:
    limit_requests(bench)
    frame = (20_000).to_bytes(4, "big") + (99).to_bytes(2, "big") + bytes(200)
    bench.receive(frame[:split], frame[split:])
    assert bench.socket.closed
    [line] = lines()
    assert line["received"].startswith("API 99 of 20000")
    assert line["limit"].startswith("10000 bytes")


async def test_produce_may_be_long(bench: Bench) -> None:
    limit_requests(bench)
    bench.routes[PRODUCE] = lambda request, *_: bench.requests.append(request) or HeartbeatResponse
    frame = bench.frame(9, ProduceRequest(transactional_id="t" * 20_000, acks=0))
    bench.receive(*(frame[at : at + 7_000] for at in range(0, len(frame), 7_000)))
    await iterations(2)
    assert bench.requests == [ProduceRequest(transactional_id="t" * 20_000, acks=0)]


async def test_no_request_may_be_longer_than_produce_may(bench: Bench, lines: Lines) -> None:
    bench.receive((LIMIT + 1).to_bytes(4, "big"))
    assert bench.socket.closed
    assert lines()[0]["limit"] == "socket.request.max.bytes"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request: this port speaks Kafka's"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "a TLS handshake: this port speaks plaintext"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "a request of 1397966893 bytes"),
    ],
)
async def test_the_greeting_of_another_protocol_is_named(bench, lines, sent, said):
    bench.receive(sent)
    assert bench.socket.closed
    [line] = lines()
    assert line["event"] == "connection refused"
    assert line["received"].startswith(said)


async def test_records_are_not_copied_into_the_answer(bench: Bench) -> None:
    records = bytes(500_000)
    data = PartitionData(records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data] * 3)])
    bench.routes[FETCH] = lambda *_: response
    written: list[Any] = []
    bench.socket.write = written.append  # type: ignore[method-assign]
    bench.receive(bench.frame(11, FetchRequest()))
    await iterations(5)
    pieces = [piece.obj for piece in written if isinstance(piece, memoryview)]
    assert len(pieces) == 6
    assert all(piece is records for piece in pieces)
    whole = response_encoder(FETCH, 11)(response, 1)
    assert b"".join(written) == whole


# -- the table of states ---------------------------------------------------------------------------


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    reached, more = {ConnectionState.READING}, True
    while more:
        found = {after for state in reached for after in TRANSITIONS[state]} - reached
        reached |= found
        more = bool(found)
    assert reached == set(ConnectionState)


async def test_a_change_that_is_not_in_the_table_is_a_bug(bench: Bench) -> None:
    with pytest.raises(AssertionError, match="READING to WORKING"):
        bench.connection._become(ConnectionState.WORKING)


async def test_a_parked_request_is_waiting(bench: Bench) -> None:
    bench.receive(join(bench))
    assert bench.connection.state is ConnectionState.WAITING
    bench.parked[0].answer(JoinGroupResponse())
    assert bench.connection.state is ConnectionState.READING
