"""What the page is shown: a server with ten thousand groups, and one that rebalances on demand.

Members speak Kafka's protocol over sockets of their own, and do what a journey says: nothing
happens by itself but what the server's timers do.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groupkeeper.protocol.embedded import Assignment, TopicPartition
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.batches import batch
from tests.support.codecs import encode_assignment
from tests.support.process import Server
from tests.support.requests import (
    commit_request,
    heartbeat,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.wire import Address, connect

GROUPS = 10_000
GROUP = "billing"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
TOPIC = "orders"
PARTITIONS = 6
RECORDS = 240
"""In each partition."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "8",
}
_AT_ONCE = 500
_BEATS, _BEAT_S = 200, 0.05
_SESSION_MS = 600_000
_REBALANCE_MS = 60_000


class Member:
    """A consumer with a connection of its own."""

    def __init__(self, address: Address, name: str, group: str = GROUP) -> None:
        self.name = name
        self._client = connect(address, client_id=name)
        self._group = group
        self.member_id = ""
        self._generation = -1
        self._waits = False

    def ask(self, **fields: Any) -> None:
        """Send JoinGroup, unless one waits."""
        if self._waits:
            return
        wanted = {"session_timeout_ms": _SESSION_MS, "rebalance_timeout_ms": _REBALANCE_MS}
        request = join_request(self._group, self.member_id, **(wanted | fields))
        self._client.send(3, request)
        self._waits = True

    def ask_when_told(self) -> None:
        """Send JoinGroup once a heartbeat says that there is a rebalance."""
        if self._waits:
            return
        for _ in range(_BEATS):
            beat = heartbeat(self.member_id, self._generation, self._group)
            if self._client.call(3, beat).error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.ask()
                return
            time.sleep(_BEAT_S)
        raise AssertionError(f"{self.name} was not told of a rebalance")

    def take(self) -> bool:
        """The answer to JoinGroup; whether it is the leader."""
        found = self._client.take()
        assert found.error_code == 0, found
        self._waits = False
        self.member_id, self._generation = found.member_id, found.generation_id
        return bool(found.leader == found.member_id)

    def ask_share(self, plan: dict[str, bytes]) -> None:
        """Send SyncGroup."""
        self._client.send(3, sync_request(self.member_id, self._generation, self._group, plan))

    def take_share(self) -> None:
        found = self._client.take()
        assert found.error_code == 0, found

    def leave(self) -> None:
        self._client.call(3, leave_request(self.member_id, group_id=self._group))
        self._client.close()

    def close(self) -> None:
        self._client.close()


def rebalance(members: Sequence[Member]) -> None:
    """New members join, the others follow, and all get their shares."""
    for each in members:
        if not each.member_id:
            each.ask()
    for each in members:
        each.ask_when_told()
    finish(members)


def finish(members: Sequence[Member]) -> None:
    """All have sent JoinGroup: take the answers, and share the partitions."""
    leads = [each.take() for each in members]
    names = sorted(members, key=lambda each: each.name)
    plan = {each.member_id: _share(number, len(names)) for number, each in enumerate(names)}
    for each, is_leader in zip(members, leads, strict=True):
        each.ask_share(plan if is_leader else {})
    for each in members:
        each.take_share()


def _share(number: int, among: int) -> bytes:
    mine = TopicPartition(topic=TOPIC, partitions=[*range(number, PARTITIONS, among)])
    return encode_assignment(Assignment(version=1, assigned_partitions=[mine]))


class Scene:
    """The server, and the members that are connected."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder, SETTINGS)
        self.members: list[Member] = []

    def start(self) -> None:
        self.server.start()
        self._fill()
        self._live()

    def close(self) -> None:
        for each in self.members:
            each.close()
        self.server.stop()

    @property
    def url(self) -> str:
        return f"http://{self.server.http}/"

    def member(self, name: str, group: str = GROUP) -> Member:
        """A new member, which has sent nothing yet."""
        return Member(self.server.kafka, name, group)

    def read(self, offset: int) -> None:
        """The group has read up to an offset in all partitions."""
        with connect(self.server.kafka) as client:
            places = {(TOPIC, each): offset for each in range(PARTITIONS)}
            client.call(8, commit_request(places, "reader"))

    def _fill(self) -> None:
        """A topic with records, and ten thousand groups with an offset."""
        with connect(self.server.kafka, timeout=60) as client:
            topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
            client.call(4, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            data = batch(0, *[b"order"] * RECORDS, time=int((time.time() - 300) * 1000))
            rows = [PartitionProduceData(index=each, records=data) for each in range(PARTITIONS)]
            sent = TopicProduceData(name=TOPIC, partition_data=rows)
            client.call(7, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[sent]))
            names = [f"group-{number:05}" for number in range(GROUPS)] + [HOSTILE, "reader"]
            for first in range(0, len(names), _AT_ONCE):
                some = names[first : first + _AT_ONCE]
                for name in some:
                    client.send(8, commit_request({(TOPIC, 0): RECORDS}, name))
                for _ in some:
                    client.take()
            places = {(TOPIC, each): 40 * each for each in range(PARTITIONS)}
            client.call(8, commit_request(places, GROUP))

    def _live(self) -> None:
        """Six rebalances of the group, with members that come and go."""
        first = self.member("billing-a")
        rebalance([first])
        second = self.member("billing-b")
        rebalance([first, second])
        third = self.member("billing-c")
        rebalance([first, second, third])
        second.leave()
        rebalance([first, third])
        fourth = self.member("billing-d")
        rebalance([first, third, fourth])
        hostile = self.member(HOSTILE, HOSTILE)
        rebalance([hostile])
        self.members = [first, third, fourth, hostile]

    @property
    def consumers(self) -> list[Member]:
        """Those of the group."""
        return self.members[:3]
