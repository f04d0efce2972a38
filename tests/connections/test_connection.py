"""One connection: cutting, order, back-pressure, and what ends it."""

import asyncio
from itertools import cycle, pairwise
from unittest.mock import Mock

import pytest

from groupkeeper.connections.inbox import HELD_BYTES, Inbox
from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.messages.produce import ProduceRequest
from tests.support.fake_socket import (
    API_VERSIONS,
    HEARTBEAT,
    JOIN,
    LIMIT,
    PRODUCE,
    Bench,
    answer_join,
    beat,
    join,
)
from tests.support.requests import join_request, leave_request
from tests.support.served import Lines, Served, settle

# -- cutting ---------------------------------------------------------------------------------------


async def test_a_request_is_answered_in_the_call_that_brought_it(bench: Bench) -> None:
    bench.receive(beat(bench))
    assert bench.answers() == [(1, HeartbeatResponse())]


async def test_a_cut_may_fall_anywhere_or_everywhere() -> None:
    cuts = [[0, cut, None] for cut in range(1, 60)]
    for ends in (*cuts, [*range(60), None]):
        bench = Bench()
        data = beat(bench) + beat(bench)
        bench.receive(*(data[start:end] for start, end in pairwise(ends)))
        assert bench.answered() == [1, 2], ends


async def test_what_came_together_is_answered_in_order_in_one_write(bench: Bench) -> None:
    bench.receive(b"".join(beat(bench) for _ in range(50)))
    assert bench.answered() == list(range(1, 51))
    assert len(bench.socket.writes) == 1


async def test_a_large_frame_in_many_pieces_is_put_together_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Mock(wraps=bench.connection._in.take)
    monkeypatch.setattr(Inbox, "take", lambda inbox: take())
    data = beat(bench, "g" * 30_000)
    bench.receive(*(data[at : at + 10] for at in range(0, len(data), 10)))
    assert bench.answered() == [1]
    assert take.call_count == 1


async def test_a_missing_client_id_is_the_empty_string(bench: Bench) -> None:
    bench.receive(beat(bench, client_id=None))
    [caller] = bench.callers
    peer = caller.peer
    assert (peer.client_id, peer.host, caller.api_version) == ("", "/10.0.0.7", 4)


def api_versions(bench: Bench, version: int, name: str = "apache-kafka-java") -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="4.1.0")
    return bench.frame(version, request)


@pytest.mark.parametrize(
    ("version", "name", "known"),
    [
        (4, "apache-kafka-java", ("apache-kafka-java", "4.1.0")),
        (3, "apache-kafka-java", ("apache-kafka-java", "4.1.0")),
        (2, "apache-kafka-java", ("", "")),
        (3, "not a name", ("", "")),
    ],
)
async def test_a_connection_knows_the_software_of_its_client(
    bench: Bench, version: int, name: str, known: tuple[str, str]
) -> None:
    """Said once (KIP-511), it belongs to the requests after it, under any client id."""
    bench.receive(beat(bench), api_versions(bench, version, name), beat(bench))
    bench.receive(beat(bench, client_id="other"))
    peers = [caller.peer for caller in bench.callers]
    assert [peer.client_id for peer in peers] == ["tester", "tester", "other"]
    assert {peer.host for peer in peers} == {"/10.0.0.7"}
    assert {(peer.software_name, peer.software_version) for peer in peers[1:]} == {known}


async def test_two_connections_of_a_client_id_are_two_peers(bench: Bench) -> None:
    connection, _ = bench.connect()
    bench.receive(api_versions(bench, 3), beat(bench))
    connection.data_received(beat(bench))
    named, unnamed = [caller.peer for caller in bench.callers]
    assert (named.software_name, unnamed.software_name) == ("apache-kafka-java", "")


async def test_every_answer_is_counted_by_its_api(bench: Bench) -> None:
    bench.receive(beat(bench) + beat(bench) + join(bench))
    counted = {key: seen.count() for key, seen in bench.requests_seen.items()}
    assert counted == {HEARTBEAT: 2}
    bench.parked[0].answer(JoinGroupResponse())
    assert bench.requests_seen[JOIN].count() == 1


# -- one request at a time -------------------------------------------------------------------------


async def test_a_request_that_waits_blocks_what_follows_and_keeps_the_order(bench: Bench) -> None:
    bench.receive(beat(bench) + join(bench) + beat(bench), beat(bench))
    assert bench.answered() == [1]
    assert len(bench.requests) == 2
    await answer_join(bench)
    assert bench.answered() == [1, 2, 3, 4]


async def test_what_was_held_back_is_not_decided_inside_the_answer(bench: Bench) -> None:
    """The caller of `answer` may have others to answer."""
    bench.receive(join(bench) + beat(bench))
    bench.parked[0].answer(JoinGroupResponse())
    assert len(bench.requests) == 1


async def test_two_that_wait_take_turns(bench: Bench) -> None:
    bench.receive(join(bench) + join(bench) + beat(bench))
    for number in (0, 1):
        await answer_join(bench, number)
    assert bench.answered() == [1, 2, 3]


async def test_what_arrives_between_answer_and_resumption_keeps_its_place(bench: Bench) -> None:
    bench.receive(join(bench) + beat(bench, "first"))
    bench.parked[0].answer(JoinGroupResponse())
    bench.receive(beat(bench, "second"))
    await asyncio.sleep(0)
    assert [request.group_id for request in bench.requests] == ["g", "first", "second"]


# -- back-pressure ---------------------------------------------------------------------------------


async def test_reading_pauses_when_too_much_is_held_and_goes_on_later(bench: Bench) -> None:
    bench.receive(join(bench))
    flood = [beat(bench, "g" * 10_000) for _ in range(40)]
    for frame in flood:
        if bench.socket.reading:
            bench.receive(frame)
    assert not bench.socket.is_reading()
    assert bench.connection.held < HELD_BYTES + 20_000
    await answer_join(bench)
    assert bench.socket.reading
    assert len(bench.answered()) > 20


async def test_reading_goes_on_if_the_last_request_that_was_held_waits(bench: Bench) -> None:
    bench.receive(join(bench))
    flood = [beat(bench, "g" * 10_000) for _ in range(HELD_BYTES // 10_000 + 1)]
    bench.receive(*flood, join(bench))
    assert not bench.socket.is_reading()
    await answer_join(bench)
    assert bench.connection.held == 0
    assert bench.socket.reading
    await answer_join(bench, 1)
    bench.receive(beat(bench))
    assert bench.answered() == [*range(1, bench.sent() + 1)]


async def test_a_frame_larger_than_what_is_held_still_arrives(bench: Bench) -> None:
    data = beat(bench, "g" * 30_000)
    size = 3 * HELD_BYTES
    frame = size.to_bytes(4, "big") + data[4:] + bytes(size - len(data) + 4)
    bench.receive(*(frame[at : at + 60_000] for at in range(0, len(frame), 60_000)))
    assert bench.answered() == [1]  # what stands behind a request is ignored, however much it is
    assert bench.socket.reading


def _pieces(stream: bytes, sizes: list[int]) -> list[bytes]:
    """The stream cut into pieces of these sizes, again and again."""
    pieces, at = [], 0
    for size in cycle(sizes):
        if at >= len(stream):
            return pieces
        pieces.append(stream[at : at + size])
        at += size
    raise AssertionError("no sizes")


@pytest.mark.parametrize("size", [HELD_BYTES, 3 * HELD_BYTES])
@pytest.mark.parametrize(
    "sizes", [[64 * 1024], [256 * 1024], [256 * 1024 - 1, 1], [3, 200_000], [1 << 30], [70_001]]
)
async def test_requests_behind_a_large_one_are_answered_however_the_stream_is_cut(
    bench: Bench, size: int, sizes: list[int]
) -> None:
    large = beat(bench, "g" * 30_000)
    large = size.to_bytes(4, "big") + large[4:] + bytes(size - len(large) + 4)
    stream = beat(bench) + large + beat(bench) + large + beat(bench)
    for piece in _pieces(stream, sizes):
        assert bench.socket.reading, "reading stays paused"
        bench.receive(piece)
        await asyncio.sleep(0)
    assert bench.answered() == [2, 1, 3, 1, 4]
    assert bench.socket.reading


@pytest.mark.parametrize("first", [1, 3, 4, 5, 12, 500, 1_030, 1_041, 1_042, 1_043])
async def test_full_reads_of_many_requests_are_answered_wherever_they_begin(
    bench: Bench, first: int
) -> None:
    """A read ends before, in and behind the size of the next request; the next read is full."""
    frame = beat(bench, "g" * 1_000)
    stream = frame * (4 * HELD_BYTES // len(frame))
    for piece in (stream[:first], *_pieces(stream[first:], [256 * 1024])):
        assert bench.socket.reading, "reading stays paused"
        bench.receive(piece)
        await asyncio.sleep(0)
    assert len(bench.answered()) == len(stream) // len(frame)
    assert bench.socket.reading


async def test_a_client_that_takes_no_answers_is_not_served_further(bench: Bench) -> None:
    bench.socket.full = True
    bench.receive(beat(bench))
    bench.socket.full = False
    bench.receive(beat(bench), beat(bench))
    assert bench.answered() == [1]
    assert len(bench.requests) == 1
    bench.socket.drain()
    await asyncio.sleep(0)
    assert bench.answered() == [1, 2, 3]


async def test_a_client_that_takes_no_answers_is_not_read_from(bench: Bench) -> None:
    bench.socket.full = True
    while bench.socket.reading:
        bench.receive(beat(bench, "g" * 10_000))
    assert len(bench.requests) == 1
    bench.socket.drain()
    for _ in range(bench.sent()):
        await asyncio.sleep(0)
    assert len(bench.answered()) == bench.sent()
    assert bench.socket.reading


async def test_large_answers_are_not_piled_up_for_a_client_that_takes_none(bench: Bench) -> None:
    bench.routes[JOIN] = lambda *_: JoinGroupResponse(protocol_name="p" * 30_000)
    bench.socket.full = True
    bench.receive(b"".join(join(bench) for _ in range(100)))
    assert len(bench.answered()) < 10


# -- not Kafka -------------------------------------------------------------------------------------


def request_of(key: int, version: int, body: bytes = b"") -> bytes:
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff"
    return (len(head + body)).to_bytes(4, "big") + head + body


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (LIMIT + 1).to_bytes(4, "big"),
        (-1).to_bytes(4, "big", signed=True),
        bytes(4),
        b"\0\0\0\3abc",
        request_of(HEARTBEAT, 0, b"\0\1g\0\0\0\0\0\1"),
        request_of(HEARTBEAT, 5),
        request_of(HEARTBEAT, -1),
        request_of(999, 0),
        request_of(PRODUCE, 9),  # known, without a handler here
        request_of(API_VERSIONS, 3, b"\x00\x05"),
    ],
)
async def test_what_is_not_kafka_is_closed_without_an_answer_and_named_once(
    bench: Bench, lines: Lines, garbage: bytes
) -> None:
    bench.receive(garbage + beat(bench))
    assert bench.socket.closed
    assert (bench.answered(), bench.requests) == ([], [])
    assert bench.stats.broken == 1
    [line] = lines()
    assert (line["event"], line["client"]) == ("connection refused", "/10.0.0.7")
    assert line["received"]


async def test_bytes_behind_a_request_are_ignored_as_by_brokers(bench: Bench) -> None:
    bench.receive(request_of(HEARTBEAT, 0, b"\0\1g\0\0\0\0\0\1m" + b"left over"))
    assert (len(bench.requests), bench.socket.closed) == (1, False)


async def test_what_was_answered_before_the_garbage_still_leaves(bench: Bench) -> None:
    bench.receive(beat(bench) + b"GET /")
    assert bench.answered() == [1]
    assert bench.socket.closed


async def test_the_largest_request_allowed_is_not_refused(bench: Bench) -> None:
    bench.receive(LIMIT.to_bytes(4, "big"))
    assert not bench.socket.closed


# -- ApiVersions of an unsupported version --------------------------------------------------------


@pytest.mark.parametrize("version", [5, 99, 32_767])
async def test_an_unknown_version_of_api_versions_gets_a_range_to_ask_again(
    bench: Bench, version: int
) -> None:
    """KIP-511: in the form of version 0, error 35, exactly one range."""
    bench.receive(request_of(API_VERSIONS, version, b"\0whatever comes"))
    assert bench.socket.writes == [
        b"\0\0\0\x10" + bytes(4) + b"\0\x23" + b"\0\0\0\1" + b"\0\x12" + b"\0\0" + b"\0\x04"
    ]


async def test_after_an_unknown_version_the_connection_is_still_good(bench: Bench) -> None:
    bench.receive(request_of(API_VERSIONS, 32_767, b"\0"))
    bench.socket.writes.clear()
    bench.receive(bench.frame(0, ApiVersionsRequest()) + beat(bench))
    (_, versions), _ = bench.answers()
    assert [each.api_key for each in versions.api_keys] == [JOIN, HEARTBEAT, API_VERSIONS]


# -- requests without an answer, and the ends ------------------------------------------------------


async def test_no_reply_answers_nothing_and_lets_the_next_go(bench: Bench) -> None:
    bench.routes[PRODUCE] = lambda *_: NO_REPLY
    bench.receive(bench.frame(9, ProduceRequest(acks=0)) + beat(bench))
    assert bench.answered() == [2]


async def test_a_late_no_reply_lets_the_next_go_as_well(bench: Bench) -> None:
    bench.receive(join(bench) + beat(bench))
    await answer_join(bench, response=NO_REPLY)
    assert bench.answered() == [2]


async def test_an_answer_to_a_client_that_is_gone_is_dropped(bench: Bench) -> None:
    bench.receive(join(bench))
    bench.socket.abort()
    await asyncio.sleep(0)
    await answer_join(bench)
    assert bench.socket.writes == []


async def test_what_a_client_sent_before_it_went_still_counts(bench: Bench) -> None:
    bench.receive(join(bench) + beat(bench, "first") + join(bench) + beat(bench, "last")[:-1])
    bench.socket.abort()
    await asyncio.sleep(0)
    assert len(bench.requests) == 1
    for number in (0, 1):
        assert bench.stats.open == len(bench.table.opened) == 0  # it takes no place of another
        assert len(bench.table.orphans) == 1
        await answer_join(bench, number)
    assert len(bench.table.orphans) == 0
    assert [request.group_id for request in bench.requests] == ["g", "first", "g"]
    assert bench.socket.writes == []


@pytest.mark.parametrize("rest", [b"\0\0\0\1x", b"\0\0\0\0", None], ids=["odd", "empty", "bug"])
async def test_who_is_gone_and_sent_nonsense_or_met_a_bug_is_not_counted(
    bench: Bench, rest: bytes | None
) -> None:
    bench.routes[HEARTBEAT] = Mock(side_effect=ValueError)
    bench.receive(join(bench) + (beat(bench) if rest is None else rest))
    bench.socket.abort()
    await asyncio.sleep(0)
    await answer_join(bench)
    assert bench.stats.open == len(bench.table.opened) == 0


async def test_what_came_after_we_hung_up_does_not_count(bench: Bench) -> None:
    bench.receive(join(bench) + beat(bench))
    bench.connection.close()
    await answer_join(bench)
    assert len(bench.requests) == 1


async def test_a_connection_is_counted_while_it_is_open(bench: Bench) -> None:
    assert (bench.stats.open, bench.stats.accepted, len(bench.table.opened)) == (1, 1, 1)
    bench.connection.close()
    await asyncio.sleep(0)
    assert (bench.stats.open, bench.stats.accepted, len(bench.table.opened)) == (0, 1, 0)


async def test_a_handlers_bug_costs_its_connection(bench: Bench, lines: Lines) -> None:
    bench.routes[JOIN] = lambda *_: 1 / 0
    bench.receive(join(bench) + beat(bench))
    assert bench.socket.closed
    assert (bench.answered(), bench.requests) == ([], [])
    [line] = lines()
    assert line["event"] == "request failed"
    assert "ZeroDivisionError" in line["exception"]


async def test_an_answer_that_cannot_be_encoded_costs_its_connection(
    bench: Bench, lines: Lines
) -> None:
    bench.receive(join(bench) + beat(bench))
    await answer_join(bench, response=JoinGroupResponse(generation_id=1 << 40))
    assert bench.socket.closed
    assert bench.socket.writes == []
    assert [line["event"] for line in lines()] == ["answer cannot be written"]


async def test_who_answers_others_too_does_not_notice_a_bad_answer(bench: Bench) -> None:
    bench.receive(join(bench))
    bench.parked[0].answer("no message at all")
    assert bench.socket.closed


async def test_answering_twice_is_a_bug(bench: Bench) -> None:
    bench.receive(join(bench))
    bench.parked[0].answer(JoinGroupResponse())
    with pytest.raises(AssertionError):
        bench.parked[0].answer(JoinGroupResponse())


async def test_closing_sends_nothing_more(bench: Bench) -> None:
    bench.receive(join(bench))
    bench.connection.close()
    bench.parked[0].answer(JoinGroupResponse())
    assert bench.socket.writes == []


# -- with groups behind it -------------------------------------------------------------------------


def test_a_member_outlives_its_connection_until_its_session_ends(served: Served) -> None:
    first, second = served.client(), served.client()
    leader, _ = settle(first)
    second.send(3, join_request())
    served.advance(0.1)
    second.hang_up()
    joined = first.join(member_id=leader)
    assert len(joined.members) == served.members() == 2
    served.advance(9)
    assert first.beat(leader, joined.generation_id) == 0
    served.advance(1.1)
    assert served.members() == 1
    served.check_accounts()


def test_who_leaves_while_it_joins_has_left_although_it_hung_up(served: Served) -> None:
    """What Java's client does when it is closed during a rebalance."""
    first, second = served.client(), served.client()
    leader, _ = settle(first)
    member_id = second.call(9, join_request()).member_id
    second.send(9, join_request(member_id=member_id))
    second.send(5, leave_request(member_id))
    served.advance(0.1)
    second.hang_up()
    assert served.members() == 2
    first.join(member_id=leader)
    served.advance(0.1)
    assert served.members() == 1
    served.check_accounts()


# -- memory that runs out --------------------------------------------------------------------------


async def test_no_memory_for_what_was_received_ends_the_connection_in_a_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(Inbox, "hold", Mock(side_effect=MemoryError))
    bench.receive(beat(bench)[:9])
    assert bench.socket.closed
    [line] = lines()
    assert (line["event"], line["client"]) == ("out of memory: connection closed", "/10.0.0.7")


@pytest.mark.parametrize("group_id", ["g", "g" * 20_000])
async def test_no_memory_for_a_request_is_told_in_the_same_line(
    bench: Bench, lines: Lines, group_id: str
) -> None:
    bench.routes[HEARTBEAT] = Mock(side_effect=MemoryError)
    bench.receive(beat(bench, group_id))
    await asyncio.sleep(0)
    assert [line["event"] for line in lines()] == ["out of memory: connection closed"]
