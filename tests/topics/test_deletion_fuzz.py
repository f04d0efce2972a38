"""Several clients delete, make, describe, write and commit to the same few topics at once, on a
server in memory where every item of a request is a slice and every slice a turn. What was
acknowledged for a topic is there as long as nobody deletes that very topic, crashes included, and
no commit outlives its topic.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches
from groupkeeper.topics import slices
from groupkeeper.turns import Turns
from tests.support.requests import Places, commit_request
from tests.support.served import Client, Served

WANTED = ["a", "b", "c"]
"""What everybody is after."""
WIDE = [f"w{number}" for number in range(40)]
"""They only make a deletion last, so that much happens before its end."""
CLIENTS = 8
ADMINISTRATORS = 2
"""Of the clients; the others write, commit, and ask for topics, which makes them."""
REQUESTS = 15
"""Of all administrators, in each of two rounds; the others ask as long as they do."""
PAUSE_S = 0.02
"""At most so long a client waits before the next request."""

PRODUCE, METADATA, COMMIT = ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.OFFSET_COMMIT
CREATE, DELETE = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS
VERSIONS = {PRODUCE: 7, METADATA: 12, COMMIT: 8, CREATE: 7, DELETE: 6}
TURN_TAKES_S = 0.0005
"""Virtual time: a few messages come meanwhile."""


@pytest.fixture
def served(monkeypatch):
    wait = Turns.wait

    async def wait_longer(turns: Turns) -> None:
        await wait(turns)
        await asyncio.sleep(TURN_TAKES_S)

    monkeypatch.setattr(Turns, "wait", wait_longer)
    monkeypatch.setattr(slices, "ITEMS", 1)
    for name, module in list(sys.modules.items()):
        if name.startswith("groupkeeper.") and hasattr(module, "TURN_S"):
            monkeypatch.setattr(module, "TURN_S", -1.0)
    served = Served("offsets.topic.num.partitions=2")
    yield served
    served.close()


@dataclass
class Known:
    """What clients were told of one topic, by its id."""

    name: str
    values: set[bytes] = field(default_factory=set)
    """Records acknowledged after it was seen."""
    commits: dict[str, int] = field(default_factory=dict)
    """The newest one acknowledged after it was seen, by group."""
    deleted: bool = False
    commits_before: dict[tuple[str, str], int] = field(default_factory=dict)
    """Those that are older than its deletion."""


@dataclass
class Sent:
    """A request, and the topics of its name that were known when it was sent."""

    key: ApiKey
    request: Any
    seen: list[Known]
    group: str = ""
    value: int = 0
    """What it writes or commits."""
    commits_before: dict[tuple[str, str], int] = field(default_factory=dict)
    """The newest one acknowledged until then, by group and topic."""


class Story:
    """Sends, and notes what is acknowledged."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.random = Random(seed)
        self.known: dict[bytes, Known] = {}
        self.under_way: dict[int, Sent] = {}
        self.committed: dict[tuple[str, str], int] = {}
        self.written = 0

    def play(self, *, to_the_end: bool) -> None:
        """Requests of all clients at once; if not to the end, some are without an answer."""
        clients = [self.served.client() for _ in range(CLIENTS)]
        rests = [0.0] * CLIENTS
        left = REQUESTS
        while left or (to_the_end and self.under_way):
            for number, client in enumerate(clients):
                if number in self.under_way and client.frames:
                    self.note(self.under_way.pop(number), client.take())
                    rests[number] = self.served.loop.time() + self.random.random() * PAUSE_S
                rested = self.served.loop.time() >= rests[number]
                if left and rested and number not in self.under_way:
                    left -= number < ADMINISTRATORS
                    self.under_way[number] = sent = self.choose(number)
                    client.send(VERSIONS[sent.key], sent.request)
            self.served.advance(0.0005)

    def choose(self, number: int) -> Sent:
        kinds = (CREATE, DELETE) if number < ADMINISTRATORS else (PRODUCE, COMMIT, METADATA)
        key = self.random.choice(kinds)
        names = self.random.sample(WANTED, self.random.randint(1, len(WANTED)))
        if number < ADMINISTRATORS:
            names += WIDE
        else:
            names = names[:1]
            self.written += 1
        seen = [known for known in self.known.values() if known.name in names]
        group = f"g{number}"
        request = _request(key, names, group, self.written)
        return Sent(key, request, seen, group, self.written, dict(self.committed))

    def note(self, sent: Sent, response: Any) -> None:
        if sent.key == PRODUCE:
            if not response.responses[0].partition_responses[0].error_code:
                for known in sent.seen:
                    known.values.add(b"%d" % sent.value)
        elif sent.key == COMMIT:
            topic = response.topics[0]
            if not topic.partitions[0].error_code:
                self.committed[sent.group, topic.name] = sent.value
                for known in sent.seen:
                    known.commits[sent.group] = sent.value
        else:
            results = response.responses if sent.key == DELETE else response.topics
            for topic in (result for result in results if not result.error_code):
                known = self.see(topic)
                if sent.key == DELETE:
                    known.deleted = True
                    known.commits_before = sent.commits_before

    def see(self, topic: Any) -> Known:
        return self.known.setdefault(topic.topic_id, Known(topic.name))

    def crash(self) -> None:
        """Whoever deletes something does not hear whether it is gone."""
        for sent in self.under_way.values():
            if sent.key == DELETE:
                names = {state.name for state in sent.request.topics}
                for known in self.known.values():
                    known.deleted |= known.name in names
        self.under_way.clear()
        self.served.restart()
        self.served.settled()

    def check(self) -> None:
        topics = self.served.server.topics
        self.served.until(lambda: not topics.catalog.being_deleted)
        client = self.served.client()
        present = {topic.topic_id: topic.name for topic in _described(client)}
        committed = {f"g{number}": client.fetched(f"g{number}") for number in range(CLIENTS)}
        for topic_id, known in self.known.items():
            if topic_id not in present:
                assert known.deleted, known
                continue
            assert known.values <= _values(client, known.name)
            for group, offset in known.commits.items():
                # One that a crash left without an answer may have been later.
                assert committed[group].get((known.name, 0), -1) >= offset, (known, group)
        self.check_commits(committed, set(present.values()))

    def check_commits(self, committed: dict[str, Places], present: set[str]) -> None:
        """They are of topics that are there, and newer than the deletion of those before."""
        for group, places in committed.items():
            for (name, _), offset in places.items():
                assert name in present, (group, name)
                for known in self.known.values():
                    if known.name == name and known.deleted:
                        before = known.commits_before.get((group, name), -1)
                        assert offset > before, (known, group)


def _request(key: ApiKey, names: list[str], group: str, value: int) -> Any:
    if key == PRODUCE:
        records = encode_batch(0, 0, 1_700_000_000_000, [(None, b"%d" % value)])
        data = [PartitionProduceData(index=0, records=records)]
        topic = TopicProduceData(name=names[0], partition_data=data)
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    if key == COMMIT:
        return commit_request({(names[0], 0): value}, group)
    if key == METADATA:
        return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    if key == CREATE:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
        ]
        return CreateTopicsRequest(topics=topics, timeout_ms=1000)
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000
    )


def _described(client: Client) -> list[Any]:
    topics = client.call(12, MetadataRequest(topics=None)).topics
    return [topic for topic in topics if topic.name in (*WANTED, *WIDE)]


def _values(client: Client, name: str) -> set[bytes]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=name, partitions=[partition])])
    data = client.call(4, request).responses[0].partitions[0]
    assert not data.error_code
    batches = data.records or b""
    records = (record for each in iter_batches(batches) for record in decode_records(batches, each))
    return {record.value or b"" for record in records}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_acknowledged_stays(served, seed):
    story = Story(served, seed)
    story.play(to_the_end=False)
    story.crash()
    story.check()
    story.play(to_the_end=True)
    served.settled()
    story.check()
    story.crash()
    story.check()
