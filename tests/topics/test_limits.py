"""How much there may be in all: topics, partitions, and open files of a real process."""

import os
import subprocess
import sys

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.topics.scene import Scene

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


@pytest.fixture
async def small(monkeypatch) -> Scene:
    """A server that is full with seven topics or sixteen partitions, and has one topic of two. Its
    internal topics count: two of four partitions.
    """
    monkeypatch.setattr("groupkeeper.topics.topic_admin.TOPICS_MOST", 7)
    monkeypatch.setattr("groupkeeper.topics.topic_admin.PARTITIONS_MOST", 16)
    scene = Scene()
    await scene.create("t", partitions=2)
    return scene


async def create(scene: Scene, *requested_topics: tuple[str, int]) -> list[tuple[int, bool]]:
    """Error codes, and whether the message names the limit."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in requested_topics
    ]
    response = await scene.ask(7, CreateTopicsRequest(topics=topics))
    return [
        (topic.error_code, "has at most" in (topic.error_message or ""))
        for topic in response.topics
    ]


async def test_topics_beyond_the_limit_are_refused_one_by_one(small):
    names = [(f"n{n}", 1) for n in range(6)]
    assert await create(small, *names) == [(0, False)] * 4 + [(POLICY_VIOLATION, True)] * 2
    assert small.topics.snapshot()["topics"] == 5
    assert len(small.failures) == 1
    await small.delete("n0")
    assert await create(small, ("again", 1)) == [(0, False)]


async def test_partitions_beyond_the_limit_are_refused(small):
    assert await create(small, ("a", 7), ("b", 6), ("c", 1)) == [
        (POLICY_VIOLATION, True),
        (0, False),
        (POLICY_VIOLATION, True),
    ]


async def test_growing_beyond_the_limit_is_refused(small):
    topic = CreatePartitionsTopic(name="t", count=9, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000)
    result = (await small.ask(3, request)).results[0]
    assert (result.error_code, "has at most" in result.error_message) == (POLICY_VIOLATION, True)
    topic.count = 8
    result = (await small.ask(3, request)).results[0]
    assert result.error_code == 0
    assert await create(small, ("full", 1)) == [(POLICY_VIOLATION, True)]


async def test_auto_creation_ends_at_the_limit(small):
    names = [f"n{n}" for n in range(5)]
    response = await small.metadata(*names, allow_auto_topic_creation=True)
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert [codes[name] for name in names] == [0, 0] + [POLICY_VIOLATION] * 3
    assert len(small.failures) == 1


async def test_what_is_there_survives_a_lower_limit(small, monkeypatch):
    monkeypatch.setattr("groupkeeper.topics.topic_admin.TOPICS_MOST", 1)
    again = await small.restart()
    assert again.topics.partition_count("t") == 2
    assert await create(again, ("new", 1)) == [(POLICY_VIOLATION, True)]


PRODUCER = """
import asyncio, resource, sys
from types import SimpleNamespace
from groupkeeper.node import Node
from groupkeeper.topics.topics import Topics, TopicsWorld
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.produce import PartitionProduceData, ProduceRequest
from groupkeeper.protocol.messages.produce import TopicProduceData
from tests.support.slices import counted
from tests.topics.scene import Reply, Settings, batch, handlers_of
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.message import key_of

async def ask(handlers, version, request):
    reply = Reply()
    response, _ = counted(handlers[key_of(type(request))](request, Caller(version), reply))
    return response if response is not None else await reply.wait()

async def main(folder, most):
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    told = []
    world = TopicsWorld(open_files_most=most, failed=lambda where, error: told.append(error))
    node = Node(0, lambda _: ("localhost", 9092))
    directory = SimpleNamespace(data_dir=folder, was_used=False)
    plane = Topics(directory, Settings(), world)
    handlers = handlers_of(plane, node)
    wish = CreatableTopic(name="t", num_partitions=2000, replication_factor=1)
    await ask(handlers, 7, CreateTopicsRequest(topics=[wish]))
    for value in ("a", "b"):
        data = [PartitionProduceData(index=n, records=batch(value)) for n in range(2000)]
        topic = TopicProduceData(name="t", partition_data=data)
        response = await ask(handlers, 9, ProduceRequest(acks=1, topic_data=[topic]))
        codes = {one.error_code for one in response.responses[0].partition_responses}
        assert codes == {0}, (codes, told[:3])
    wanted = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(2000)]
    topic = FetchTopic(topic="t", partitions=wanted)
    response = await ask(handlers, 12, FetchRequest(max_bytes=10**9, topics=[topic]))
    sizes = {len(data.records) for data in response.responses[0].partitions}
    assert sizes == {2 * len(batch("a"))}, sizes
    print(plane.snapshot()["topic_files_open"])
    await plane.close()
    assert told == [], told[:3]

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("most", [50, 1_000_000])
def test_more_partitions_than_descriptors(tmp_path, most):
    done = subprocess.run(
        [sys.executable, "-c", PRODUCER, str(tmp_path), str(most)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= min(most, 256)
