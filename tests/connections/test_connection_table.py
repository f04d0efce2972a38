"""Limits of the number of connections, and which ones are closed. Time is an argument."""

import asyncio

import pytest

from groupkeeper.connections import connection_table as module
from groupkeeper.connections.connection import Connection
from groupkeeper.connections.connection_table import (
    ANSWER_S,
    REQUEST_S,
    SHORT_OF_ROOM_S,
    STALLED_S,
    ConnectionState,
)
from groupkeeper.connections.inbox import HELD_BYTES
from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from tests.support.fake_socket import HEARTBEAT, PRODUCE, Bench, FakeSocket, beat, join
from tests.support.served import Lines


def look(bench: Bench, seconds: float = 0.0) -> None:
    """Let time pass, and check all connections."""
    bench.clock.time += seconds
    for _ in bench.table.look(bench.clock.time):
        pass


def begin(connection: Connection, size: int, sent: int) -> None:
    """The first bytes of a request of so many."""
    data = size.to_bytes(4, "big") + b"\0\0\0\x09" + bytes(sent - 8)
    for at in range(0, sent, 100_000):
        connection.data_received(data[at : at + 100_000])


# -- places ----------------------------------------------------------------------------------------


async def test_one_address_has_so_many_places(bench: Bench, lines: Lines) -> None:
    bench.services.connections = table = bench.new_table(most=100, most_per_host=2)
    sockets = [bench.connect("10.0.0.1")[1] for _ in range(3)]
    assert [socket.closed for socket in sockets] == [False, False, True]
    assert not bench.connect("10.0.0.2")[1].closed
    assert len(table.opened) == 3
    assert bench.stats.refused == 1
    [line] = lines()
    assert line["limit"] == "max.connections.per.ip = 2"


async def test_a_place_of_an_address_is_free_again(bench: Bench) -> None:
    bench.services.connections = bench.new_table(most=100, most_per_host=1)
    _, first = bench.connect("10.0.0.1")
    assert bench.connect("10.0.0.1")[1].closed
    first.hang_up()
    await asyncio.sleep(0)
    assert not bench.connect("10.0.0.1")[1].closed


async def orphan(bench: Bench) -> Connection:
    """A client that hung up while a request was behind one that waits."""
    connection, socket = bench.connect()
    connection.data_received(join(bench) + beat(bench))
    socket.hang_up()
    await asyncio.sleep(0)
    return connection


async def test_clients_that_are_gone_take_no_place(bench: Bench) -> None:
    """A request behind one that waits is kept for a client that hung up, and nobody else pays."""
    bench.services.connections = table = bench.new_table(most=3)
    for _ in range(10):
        await orphan(bench)
    assert len(table.orphans) == 10
    assert not table.opened
    assert not bench.connect()[1].closed


async def test_of_clients_that_are_gone_the_oldest_is_dropped(
    bench: Bench, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ORPHANS", 3)
    orphans = [await orphan(bench) for _ in range(4)]
    assert [each.state is ConnectionState.CLOSED for each in orphans] == [True, False, False, False]
    assert list(bench.table.orphans) == orphans[1:]
    assert [line["event"] for line in lines()] == ["requests of a disconnected client dropped"]


# -- times -----------------------------------------------------------------------------------------


async def test_a_silent_connection_is_closed_after_its_time(bench: Bench) -> None:
    bench.receive(beat(bench))
    look(bench, 600.0)
    assert not bench.socket.closed
    look(bench, 0.1)
    assert bench.socket.closed
    assert bench.stats.idle == 1


async def test_a_request_begins_the_time_anew(bench: Bench) -> None:
    for _ in range(3):
        bench.receive(beat(bench))
        look(bench, 599.0)
    assert not bench.socket.closed


async def test_who_waits_for_an_answer_is_not_silent(bench: Bench) -> None:
    bench.receive(join(bench))
    look(bench, 100_000.0)
    assert not bench.socket.closed


async def test_a_request_has_to_come_to_its_end(bench: Bench, lines: Lines) -> None:
    begin(bench.connection, 1_000, 500)
    look(bench, REQUEST_S)
    assert not bench.socket.closed
    look(bench, 0.1)
    assert bench.socket.closed
    assert bench.stats.stuck == 1
    [line] = lines()
    assert line["reason"] == "request incomplete"


async def test_a_byte_now_and_then_does_not_prolong_it(bench: Bench) -> None:
    begin(bench.connection, 1_000, 8)
    for _ in range(31):
        bench.connection.data_received(b"x")
        look(bench, 1.0)
    assert bench.socket.closed


async def test_a_long_request_has_more_time(bench: Bench) -> None:
    begin(bench.connection, 900_000, 500)
    look(bench, REQUEST_S + 10.0)
    assert not bench.socket.closed
    look(bench, 10.0)
    assert bench.socket.closed


async def test_an_answer_has_to_be_taken(bench: Bench, lines: Lines) -> None:
    bench.socket.full = True
    bench.receive(beat(bench))
    look(bench, ANSWER_S)
    assert not bench.socket.closed
    look(bench, 0.1)
    assert bench.socket.closed
    assert lines()[0]["reason"] == "answer not read"
    assert bench.limits.unsent.used == 0


async def test_who_takes_something_has_time_for_more(bench: Bench) -> None:
    bench.socket.full = True
    bench.receive(beat(bench))
    for _ in range(5):
        bench.socket.unsent -= 1
        look(bench, ANSWER_S)
    assert not bench.socket.closed


# -- room ------------------------------------------------------------------------------------------

BIG = 2 * HELD_BYTES


async def test_what_has_begun_is_counted_as_a_whole(bench: Bench) -> None:
    begin(bench.connection, BIG, 1_000)
    assert bench.limits.requests.used == BIG + 4
    begin(bench.connect()[0], 500, 100)
    assert bench.limits.requests.used == BIG + 4 + 504


async def test_without_room_a_long_request_is_not_read(bench: Bench) -> None:
    bench.limits.requests.limit = BIG + 1_000
    second, socket = bench.connect()
    begin(bench.connection, BIG, 1_000)
    begin(second, BIG, 1_000)
    assert bench.socket.reading
    assert not socket.reading
    third, other = bench.connect()
    third.data_received(beat(bench))
    assert bench.answered(other) == [1], "short ones go on"
    bench.connection.data_received(bytes(BIG))
    await asyncio.sleep(0)
    assert socket.reading


async def test_time_without_room_does_not_count(bench: Bench) -> None:
    bench.limits.requests.limit = BIG
    second, socket = bench.connect()
    begin(bench.connection, BIG, 1_000)
    begin(second, BIG, 1_000)
    bench.clock.time += REQUEST_S + 20.0
    look(bench)
    assert not socket.closed
    assert bench.socket.closed
    await asyncio.sleep(0)
    assert socket.reading
    look(bench, REQUEST_S)
    assert not socket.closed


async def test_who_keeps_others_waiting_goes_early(bench: Bench, lines: Lines) -> None:
    bench.limits.requests.limit = BIG + 1_000
    begin(bench.connection, BIG, 1_000)
    look(bench, SHORT_OF_ROOM_S + 0.1)
    assert not bench.socket.closed, "no connection waits"
    second, socket = bench.connect()
    begin(second, BIG, 1_000)
    look(bench)
    assert bench.socket.closed
    await asyncio.sleep(0)
    assert socket.reading
    assert lines()[0]["limit"].startswith("queued.max.request.bytes")


async def test_answers_that_are_not_taken_go_when_there_are_too_many(
    bench: Bench, lines: Lines
) -> None:
    bench.limits.unsent.limit = 40
    sockets: list[FakeSocket] = []
    for _ in range(3):
        connection, socket = bench.connect()
        socket.full = True
        connection.data_received(beat(bench))
        sockets.append(socket)
        bench.clock.time += 0.1
    look(bench)
    assert not any(socket.closed for socket in sockets), "a moment is nobody's fault"
    look(bench, STALLED_S)
    closed = [socket.closed for socket in sockets]
    assert closed[0]
    assert not closed[2]
    assert "of all clients" in lines()[0]["limit"]
    assert bench.limits.unsent.used <= 40


async def test_one_alone_may_be_longer_than_all_may_be_together(bench: Bench) -> None:
    bench.limits.requests.limit = 10
    frame = beat(bench, "g" * 30_000)
    frame = BIG.to_bytes(4, "big") + frame[4:] + bytes(BIG - len(frame) + 4)
    bench.receive(*(frame[at : at + 50_000] for at in range(0, len(frame), 50_000)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.answered() == [1]


async def test_time_in_which_the_process_stood_still_does_not_count(bench: Bench) -> None:
    bench.clock.time = asyncio.get_running_loop().time() - 10_000.0
    connection, socket = bench.connect()
    bench.table._look(bench.turns, due=bench.clock.time)
    await bench.table._looking
    bench.table.stop()
    assert not socket.closed
    assert connection.since >= bench.clock.time + 10_000.0


async def test_who_waits_for_room_goes_on_when_all_others_wait_as_well(bench: Bench) -> None:
    """Bytes after a parked request are held without asking; then no connection has room."""
    bench.limits.requests.limit = 600_000
    bench.routes[PRODUCE] = bench.routes[HEARTBEAT]
    sockets = []
    for _ in range(2):
        connection, socket = bench.connect()
        connection.data_received(join(bench))
        begin(connection, 590_000, 320_000)
        sockets.append(socket)
    assert bench.limits.requests.used == 640_000
    for call in bench.parked:
        call.answer(JoinGroupResponse())
    for _ in range(3):
        await asyncio.sleep(0)
    assert [socket.reading for socket in sockets].count(True) == 1


async def test_who_was_hung_up_on_and_takes_nothing_is_gone_in_the_end(bench: Bench) -> None:
    ended: list[bool] = []
    bench.socket.close = lambda: None  # type: ignore[method-assign]  # as long as bytes are left
    bench.socket.abort = lambda: ended.append(True)  # type: ignore[method-assign]
    bench.receive((-1).to_bytes(4, "big", signed=True))
    assert bench.connection.state is ConnectionState.CLOSED
    look(bench, ANSWER_S)
    assert not ended
    look(bench, 0.1)
    assert ended == [True]


async def test_what_stands_behind_a_waiting_request_goes_when_others_need_room(
    bench: Bench,
) -> None:
    bench.limits.requests.limit = BIG
    bench.receive(join(bench))
    begin(bench.connection, 100_000, 90_000)
    look(bench, SHORT_OF_ROOM_S + 0.1)
    assert not bench.socket.closed
    second, _ = bench.connect()
    begin(second, BIG, 1_000)
    look(bench)
    assert bench.socket.closed
