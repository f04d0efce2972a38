"""Produce requests that came together: one job for their appends, and answers as for each alone."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from groupkeeper.apis.plain_produce import PlainProduce
from groupkeeper.apis.produce_answers import AppendAnswers
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from groupkeeper.topics.file_jobs import FileJob, FileJobs
from tests.topics.scene import Reply, Scene, batch

SECONDS = 20.0

T = TypeVar("T")


class HeldJobs(FileJobs):
    """Counts jobs, and holds them back on demand."""

    def __init__(self) -> None:
        self.count = 0
        self.hold = False
        self.held: list[FileJob[object]] = []

    def start(self, call: Callable[[], T], *, wait: bool = True) -> FileJob[T]:
        self.count += 1
        if not self.hold:
            return super().start(call, wait=wait)
        job = FileJob(call)
        self.held.append(job)  # type: ignore[arg-type]  # its result is not looked at
        return job

    def go(self) -> None:
        """End those held back now."""
        held, self.held = self.held, []
        for job in held:
            job.run()
            job.finish()


class Runs:
    """A data plane with one topic `t`, whose logs are open."""

    def __init__(self) -> None:
        self.jobs = HeldJobs()
        self.scene = Scene(file_jobs=lambda: self.jobs)
        self.replies: list[Reply] = []

    async def open(self) -> None:
        await self.scene.create("t", partitions=3)
        for partition in (0, 1):
            await self.scene.produce("t", partition, batch("first"))
        self.jobs.count = 0

    def run(self, *requests: ProduceRequest, version: int = 9) -> list[object]:
        self.replies = [Reply() for _ in requests]
        caller = Caller(version, Peer())
        asked = [(each, caller, reply) for each, reply in zip(requests, self.replies, strict=True)]
        return list(PlainProduce(self.scene.topics).handle_run(asked))


async def opened() -> Runs:
    runs = Runs()
    await runs.open()
    return runs


def produce(records: bytes | None, partition: int = 0, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=data)])


def partition_of(response: object) -> PartitionProduceResponse:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


async def test_a_run_is_one_job_and_keeps_the_order() -> None:
    runs = await opened()
    requests = produce(batch("a")), produce(batch("b"), 1), produce(batch("c")), produce(batch("d"))
    answers = [partition_of(each) for each in runs.run(*requests)]
    assert [(each.index, each.base_offset) for each in answers] == [(0, 1), (1, 1), (0, 2), (0, 3)]
    assert runs.jobs.count == 1


async def test_sequences_of_a_run_are_checked_one_after_the_other() -> None:
    runs = await opened()
    sent = [batch(str(number), id=5, sequence=number) for number in (0, 1, 3, 2, 1)]
    answers = [partition_of(each) for each in runs.run(*map(produce, sent))]
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [each.error_code for each in answers] == [0, 0, gap, 0, 0]
    assert [each.base_offset for each in answers] == [1, 2, -1, 3, 2]


async def test_acks_0_has_no_reply() -> None:
    runs = await opened()
    answers = runs.run(produce(batch("a"), acks=0), produce(batch("b")))
    assert answers[0] is NO_REPLY
    assert partition_of(answers[1]).base_offset == 2


async def test_a_run_ends_before_a_log_that_is_not_open() -> None:
    runs = await opened()
    assert len(runs.run(produce(batch("a")), produce(batch("b"), 2), produce(batch("c")))) == 1
    assert runs.run(produce(batch("b"), 2)) == []


async def test_a_run_ends_before_what_is_refused() -> None:
    runs = await opened()
    corrupt = batch("a")[:-1] + b"\1"
    for refused in (produce(corrupt), produce(None), produce(b""), produce(batch("a"), 7)):
        assert len(runs.run(produce(batch("a")), refused)) == 1


async def test_what_takes_longer_is_answered_later_in_order() -> None:
    runs = await opened()
    runs.jobs.hold = True
    assert runs.run(produce(batch("a")), produce(batch("b"))) == [None, None]
    await asyncio.sleep(0)
    assert not any(each.answered for each in runs.replies)
    runs.jobs.go()
    answers = [partition_of(await each.wait()) for each in runs.replies]
    assert [each.base_offset for each in answers] == [1, 2]


async def test_appends_wait_for_a_job_that_has_two_of_their_partition() -> None:
    runs = await opened()
    runs.jobs.hold = True
    runs.run(produce(batch("a")), produce(batch("b")))
    runs.run(produce(batch("c")))
    runs.jobs.go()  # the third append begins
    runs.run(produce(batch("d")))
    assert (runs.jobs.count, len(runs.jobs.held)) == (2, 1)


async def test_a_lone_batch_is_appended_and_answered_without_slices() -> None:
    runs = await opened()
    handler = runs.scene.handlers[ApiKey.PRODUCE]
    answer = handler(produce(batch("a")), Caller(9, Peer()), Reply())
    assert partition_of(answer).base_offset == 1


async def test_a_bug_after_the_appends_answers_every_request_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    runs = await opened()
    runs.jobs.hold = True
    assert runs.run(produce(batch("a")), produce(batch("b"), acks=0), produce(batch("c")))
    monkeypatch.setattr(AppendAnswers, "__call__", broken)
    runs.jobs.go()
    async with asyncio.timeout(SECONDS):
        first, second, third = [await each.wait() for each in runs.replies]
    assert second is NO_REPLY
    for answer in (first, third):
        assert partition_of(answer).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
