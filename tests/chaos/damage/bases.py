"""Data directories to damage: made by real servers under load, killed or stopped, with the truth.

A base is one or two lives of a server over one directory: groups with and without members that
commit, topics that are produced to, and what was deleted of each. While a life ends by kill -9
commits are under way, so that the segments lag behind the journal.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from tests.chaos.damage.truth import Group, Place, Stored, Truth
from tests.chaos.server import Needs, Server
from tests.chaos.wire import Client
from tests.support.consumer import Member
from tests.support.process import ROOT
from tests.support.requests import (
    batch_request,
    codes_of,
    commit_request,
    create_request,
    delete_records_request,
    delete_topic_request,
    offset_delete_request,
)
from tests.support.wire import Address, Gone
from tests.topics.scene import NOW, batch

OFFSETS_PARTITIONS = 5
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": "20000",
    "log.segment.bytes": "20000",
}
"""Segments so small that every log has several."""
LOAD_COMMITS = 1_000
"""Acknowledged in a life, give or take."""
LOAD_SECONDS = 30.0
"""What that may take at most."""
COMMITTERS = 4
SESSION_MS = 1_800_000
"""No member is removed while its directory is tried."""
TOPICS = {"orders": 4, "payments": 2, "refunds": 1}
UNCOMMITTED = ("refunds", 0)
"""What groups have committed offsets for, and have them no longer."""
RETENTION = {"orders": "123456789"}
PRODUCED = [("orders", 0), ("orders", 1), ("payments", 0)]
CUT = ("orders", 1)
"""The partition whose first records are deleted."""
ALONE = ["alone-0", "alone-1", "alone-2"]
STATIC = ["static-0", "static-1"]
PAIR = "pair"
WITHOUT = [f"plain-{number}" for number in range(6)]
PLACES: Sequence[Place] = [
    (name, n) for name in ("orders", "payments") for n in range(TOPICS[name])
]


@dataclass(frozen=True)
class Recipe:
    """How a base is made: its lives as node id and whether the life ends by kill -9."""

    name: str
    lives: Sequence[tuple[int, bool]]

    @property
    def killed(self) -> bool:
        return self.lives[-1][1]


KILL, STOP = True, False
RECIPES = (
    Recipe("killed", [(0, KILL)]),
    Recipe("stopped", [(0, STOP)]),
    Recipe("stopped, then killed", [(0, STOP), (0, KILL)]),
    Recipe("killed, then stopped", [(0, KILL), (0, STOP)]),
    Recipe("another node killed, then killed", [(1, KILL), (0, KILL)]),
    Recipe("another node killed, then stopped", [(1, KILL), (0, STOP)]),
)


@dataclass(frozen=True)
class Base:
    """A directory, and what was promised over it."""

    recipe: Recipe
    data: Path
    truth: Truth


def make(recipe: Recipe, folder: Path, chance: Random, checkout: Path = ROOT) -> Base:
    """The directory is `folder`/data. Raises ServerError."""
    folder.mkdir(parents=True)
    truth = Truth(offsets_partitions=OFFSETS_PARTITIONS)
    numbers = itertools.count(1)
    for life_number, (node_id, killed) in enumerate(recipe.lives):
        server = Server(folder, Needs(SETTINGS, node_id=node_id, checkout=checkout))
        try:
            server.start()
            life = _Life(server.kafka, truth, numbers)
            if life_number == 0:
                life.begin()
            commits = int(chance.uniform(0.6, 1.4) * LOAD_COMMITS)
            life.load(commits, server.kill if killed else None)
            if not killed:
                code = server.stop()
                assert code == 0, f"the server did not stop in order: {server.tail()}"
        finally:
            server.kill()
    return Base(recipe, folder / "data", truth)


class _Life:
    """What the clients of one server process do."""

    def __init__(self, address: Address, truth: Truth, numbers: Iterator[int]) -> None:
        self._address = address
        self._truth = truth
        self._numbers = numbers
        self._over = threading.Event()

    # -- what is done once, one after the other --------------------------------------------------

    def begin(self) -> None:
        client = Client(self._address)
        self._create_topics(client)
        self._delete_topic(client)
        for group_id in WITHOUT:
            self._truth.groups[group_id] = Group()
        for group_id in ALONE:
            self._truth.groups[group_id] = _alone(client, group_id, None)
        for group_id in STATIC:
            self._truth.groups[group_id] = _alone(client, group_id, f"instance of {group_id}")
        self._truth.groups[PAIR] = self._pair(client)
        self._deleted_group(client)
        self._deleted_offset(client)
        for place in PRODUCED:
            self._truth.records[place] = {}
            for _ in range(40):
                self._produce(client, place)
        self._delete_records(client)
        client.close()

    def _create_topics(self, client: Client) -> None:
        for name, count in (TOPICS | {"gone": 1}).items():
            configs = {"retention.ms": RETENTION[name]} if name in RETENTION else {}
            answer = client.call(4, create_request(name, partitions=count, **configs))
            assert answer.topics[0].error_code == 0, answer
        answer = client.call(10, MetadataRequest(topics=None))
        self._truth.cluster_id = answer.cluster_id
        self._truth.retention = dict(RETENTION)
        self._truth.topics = {
            each.name: (each.topic_id, len(each.partitions))
            for each in answer.topics
            if each.name in TOPICS
        }

    def _delete_topic(self, client: Client) -> None:
        answer = client.call(6, delete_topic_request("gone"))
        assert answer.responses[0].error_code == 0, answer

    def _pair(self, client: Client) -> Group:
        """A group of two: the second one joins, and the first one with it."""
        first, second = (
            Member(each, PAIR, session_ms=SESSION_MS) for each in (client, Client(self._address))
        )
        first.settle()
        second.ask_join()
        members: list[str] = []
        while len(members) < 2:
            first.ask_join()
            members = first.joined()
        second.joined()
        assert first.generation == second.generation, (first, second)
        shares = {first.member_id: b"first share", second.member_id: b"second share"}
        for each, plan in ((first, shares), (second, {})):
            assert each.synced(plan) == shares[each.member_id], each
        second.client.close()
        return Group({who: (None, share) for who, share in shares.items()}, first.generation)

    def _deleted_group(self, client: Client) -> None:
        for group_id in ("dead-0", "dead-1"):
            answer = client.call(7, commit_request({PLACES[0]: 1}, group_id))
            assert answer.topics[0].partitions[0].error_code == 0, answer
        answer = client.call(1, DeleteGroupsRequest(groups_names=["dead-0", "dead-1"]))
        assert {each.error_code for each in answer.results} == {0}, answer

    def _deleted_offset(self, client: Client) -> None:
        for group_id in WITHOUT[:2]:
            client.call(7, commit_request({UNCOMMITTED: 1}, group_id))
            answer = client.call(0, offset_delete_request([UNCOMMITTED], group_id))
            assert answer.topics[0].partitions[0].error_code == 0, answer

    def _delete_records(self, client: Client) -> None:
        records = self._truth.records[CUT]
        start = sorted(records)[len(records) // 2]
        answer = client.call(1, delete_records_request(*CUT, start))
        assert answer.topics[0].partitions[0].error_code == 0, answer
        self._truth.starts[CUT] = start

    # -- load ------------------------------------------------------------------------------------

    def load(self, commits: int, kill: Callable[[], None] | None) -> None:
        """So many commits, and records meanwhile; `kill` comes in the middle of it."""
        before, until = self._truth.acknowledgements, time.monotonic() + LOAD_SECONDS
        groups = list(self._truth.groups)
        threads = [
            threading.Thread(target=self._commit, args=(groups[lane::COMMITTERS],))
            for lane in range(COMMITTERS)
        ]
        threads.append(threading.Thread(target=self._produce_all))
        for thread in threads:
            thread.start()
        while self._truth.acknowledgements - before < commits and time.monotonic() < until:
            time.sleep(0.01)
        if kill is not None:
            kill()
        self._over.set()
        for thread in threads:
            thread.join()

    def _commit(self, group_ids: Sequence[str]) -> None:
        with suppress(OSError, Gone):
            client = Client(self._address)
            for group_id in itertools.cycle(group_ids):
                if self._over.is_set():
                    break
                number = next(self._numbers)
                # Not always the same ones: of some partitions the newest offset is old.
                places = dict.fromkeys(PLACES[number % 3 :: 1 + number % 2], number)
                self._commit_once(client, group_id, places)
            client.close()

    def _commit_once(self, client: Client, group_id: str, places: dict[Place, int]) -> None:
        group = self._truth.groups[group_id]
        group.sent |= places
        who = next(iter(group.members), "")
        request = commit_request(places, group_id, who, group.generation)
        errors = {*codes_of(client.call(7, request)).values()}
        if errors == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            return
        assert errors == {0}, (group_id, errors)
        group.acknowledged |= places
        self._truth.acknowledgements += 1

    def _produce_all(self) -> None:
        with suppress(OSError, Gone):
            client = Client(self._address)
            for place in itertools.cycle(PRODUCED):
                if self._over.is_set():
                    break
                self._produce(client, place)
                time.sleep(0.002)
            client.close()

    def _produce(self, client: Client, place: Place) -> None:
        number = next(self._numbers)
        value = f"record {number} " + "x" * 200
        timestamp = NOW + 10 * number
        request = batch_request(*place, batch(value, timestamp=timestamp))
        answer = client.call(7, request).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        stored = Stored(timestamp, value.encode())
        self._truth.records[place][answer.base_offset] = stored


def _alone(client: Client, group_id: str, instance_id: str | None) -> Group:
    """A group with one member, in Stable."""
    share = f"share of {group_id}".encode()
    member = Member(client, group_id, instance_id, session_ms=SESSION_MS).settle(share)
    return Group({member.member_id: (instance_id, share)}, member.generation)
