"""Produce requests that come together are handled in one go, and answered in their order."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any
from unittest.mock import Mock

import pytest

from groupkeeper.connections.produce_run import RUN_MOST, SLICED_PRODUCE_BYTES, ProduceRequests
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import NO_REPLY, ReplyTo
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.fake_socket import PRODUCE, Bench
from tests.support.served import Lines

Asked = Iterable[tuple[ProduceRequest, Caller, ReplyTo]]


class Runs(Bench):
    """A connection whose Produce requests are handled in runs; the number of each is `timeout_ms`.

    A negative number is left to the ordinary handler.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[int]] = []
        self.alone: list[int] = []
        self.held: list[ReplyTo] = []
        self.later = False
        """Answer later."""
        self.services.produce_run = self._run
        self.routes[PRODUCE] = self._one

    def _one(self, request: ProduceRequest, caller: Caller, reply_to: ReplyTo) -> Any:
        self.alone.append(request.timeout_ms)
        return answer(request)

    def _run(self, asked: Asked) -> list[Any]:
        taken = []
        for request, _, reply_to in asked:
            if request.timeout_ms < 0:
                break
            taken.append((request, reply_to))
        if taken:
            self.runs.append([request.timeout_ms for request, _ in taken])
        if self.later:
            self.held += [reply_to for _, reply_to in taken]
            return [None] * len(taken)
        return [answer(request) for request, _ in taken]

    def produce(self, number: int, acks: int = 1, size: int = 0) -> bytes:
        data = [PartitionProduceData(records=bytes(size))] if size else []
        topics = [TopicProduceData(name="t", partition_data=data)]
        request = ProduceRequest(acks=acks, timeout_ms=number, topic_data=topics)
        return self.frame(9, request)

    def beat(self) -> bytes:
        return self.frame(4, HeartbeatRequest(group_id="g"))


def answer(request: ProduceRequest) -> Any:
    return NO_REPLY if not request.acks else ProduceResponse(throttle_time_ms=request.timeout_ms)


@pytest.fixture
async def bench() -> Runs:
    return Runs()


def numbers(bench: Runs) -> list[int]:
    """Of the answers to Produce."""
    return [each.throttle_time_ms for _, each in bench.answers()]


async def test_what_comes_together_is_one_run(bench: Runs) -> None:
    bench.receive(b"".join(bench.produce(number) for number in range(5)))
    assert (bench.runs, bench.alone) == ([[0, 1, 2, 3, 4]], [])
    assert numbers(bench) == [0, 1, 2, 3, 4]
    assert bench.answered() == [1, 2, 3, 4, 5]
    assert len(bench.socket.writes) == 1


async def test_one_by_itself_is_no_run(bench: Runs) -> None:
    bench.receive(bench.produce(1), bench.produce(2))
    assert (bench.runs, bench.alone) == ([], [1, 2])


async def test_a_run_has_a_limit(bench: Runs) -> None:
    bench.receive(b"".join(bench.produce(number) for number in range(RUN_MOST + 2)))
    assert [len(run) for run in bench.runs] == [RUN_MOST, 2]
    assert bench.answered() == [*range(1, RUN_MOST + 3)]


async def test_another_request_ends_a_run(bench: Runs) -> None:
    bench.receive(bench.produce(1) + bench.produce(2) + bench.beat() + bench.produce(3))
    assert (bench.runs, bench.alone) == ([[1, 2]], [3])
    assert bench.answered() == [1, 2, 3, 4]


async def test_what_a_run_leaves_is_handled_by_itself(bench: Runs) -> None:
    bench.receive(b"".join(bench.produce(number) for number in (1, -2, -3, 4, 5)))
    assert bench.runs == [[1], [4, 5]]
    assert bench.alone == [-2, -3]
    assert numbers(bench) == [1, -2, -3, 4, 5]


async def test_a_long_request_is_in_no_run(bench: Runs) -> None:
    long = bench.produce(3, size=SLICED_PRODUCE_BYTES)
    bench.receive(bench.produce(1) + bench.produce(2) + long + bench.produce(4))
    assert (bench.runs, bench.alone) == ([[1, 2]], [3, 4])
    assert numbers(bench) == [1, 2, 3, 4]


async def test_a_request_over_the_limit_ends_a_run(bench: Runs) -> None:
    frames = [bench.produce(1), bench.produce(2, size=900), bench.produce(3, size=1_000)]
    begin = Mock(return_value=Mock(caller=Caller(9)))
    asked = ProduceRequests(b"".join([*frames, bench.produce(4)]), 0, len(frames[1]) - 4, begin)
    assert [request.timeout_ms for request, _, _ in asked] == [1, 2]


async def test_a_malformed_request_is_refused_after_the_run_before_it(
    bench: Runs, lines: Lines
) -> None:
    broken = bytearray(bench.produce(3))
    broken[-8:] = b"\xff" * 8
    bench.receive(bench.produce(1) + bench.produce(2) + bytes(broken) + bench.produce(4))
    assert numbers(bench) == [1, 2]
    assert (bench.socket.closed, bench.stats.broken) == (True, 1)
    assert [line["event"] for line in lines()] == ["connection refused"]


async def test_acks_0_has_no_answer(bench: Runs) -> None:
    bench.receive(bench.produce(1) + bench.produce(2, acks=0) + bench.produce(3))
    assert numbers(bench) == [1, 3]


async def test_later_answers_come_in_order_and_the_next_request_waits_for_all(bench: Runs) -> None:
    bench.later = True
    bench.receive(bench.produce(1) + bench.produce(2) + bench.beat())
    bench.receive(bench.beat())
    assert (bench.answered(), bench.requests) == ([], [])
    for number, reply_to in enumerate(bench.held, 1):
        assert not bench.requests
        reply_to.answer(ProduceResponse(throttle_time_ms=number))
    await asyncio.sleep(0)
    assert bench.answered() == [1, 2, 3, 4]


async def test_a_run_that_waits_for_the_disk_counts_in_the_budget(bench: Runs) -> None:
    bench.later = True
    frames = bench.produce(1, size=10_000) + bench.produce(2, size=10_000)
    bench.receive(frames)
    assert bench.limits.requests.used == len(frames)
    for reply_to in bench.held:
        reply_to.answer(ProduceResponse())
    assert bench.limits.requests.used == 0


async def test_a_long_request_that_is_answered_counts_no_longer(bench: Runs) -> None:
    waiting: list[ReplyTo] = []
    bench.routes[PRODUCE] = lambda request, caller, reply_to: waiting.append(reply_to)
    long, short = bench.produce(1, size=SLICED_PRODUCE_BYTES), bench.produce(2)
    bench.receive(long)
    await asyncio.sleep(0)
    assert bench.limits.requests.used == len(long)
    waiting[0].answer(ProduceResponse())
    bench.receive(short)
    assert (len(waiting), bench.limits.requests.used) == (2, 0)


async def test_a_client_that_is_gone_needs_no_answers(bench: Runs) -> None:
    bench.later = True
    bench.receive(bench.produce(1) + bench.produce(2))
    bench.socket.abort()
    await asyncio.sleep(0)
    for reply_to in bench.held:
        reply_to.answer(ProduceResponse())
    assert bench.answered() == []


@pytest.mark.parametrize("decoded", [0, 1])
async def test_a_bug_ends_the_connection_alone(bench: Runs, lines: Lines, decoded: int) -> None:
    def broken(asked: Asked) -> list[Any]:
        list(islice(asked, decoded))
        raise RuntimeError("a bug")

    bench.services.produce_run = broken
    bench.receive(bench.beat())
    bench.receive(bench.produce(1) + bench.produce(2))
    assert bench.socket.closed
    assert [line["event"] for line in lines()] == ["request failed"]


async def test_every_request_of_a_run_is_counted(bench: Runs) -> None:
    bench.receive(bench.produce(1) + bench.produce(2))
    assert bench.requests_seen[PRODUCE].count() == 2
