"""A backup of a server that commits, rolls, makes and deletes topics and is killed meanwhile.

Two threads take turns at every call of the file system (tests/support/interleaved.py). Then a
second server starts on the copy: it has to be in a state that the first one was in.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from groupkeeper.storage.backup.backup import back_up
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.store import Store
from tests.support.backups import DEST, disk_with, job, tree
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.interleaved import CALLS, InTurns, Turns
from tests.support.requests import (
    commit_request,
    create_request,
    delete_records_request,
    delete_topic_request,
    produce_request,
)
from tests.support.served import Served
from tests.support.stored import values_in

SEEDS = sorted({*range(int(os.environ.get("BACKUP_SEEDS", "10"))), 19, 20})
"""One life each, of a second or two. The last two notice the mistakes in tests/mutants."""
GROUPS = ("g0", "g1", "g2", "g3", "g4")
TOPICS = ("a", "b", "c")
PARTITIONS = ("offsets.topic.num.partitions=4",)
BUSY = (
    *("offsets.topic.segment.bytes=700", "log.segment.bytes=500", "log.retention.bytes=1500"),
    *("log.retention.check.interval.ms=300", "log.cleaner.backoff.ms=100"),
    *("log.cleaner.min.cleanable.ratio=0.01", "offsets.raw.retention.ms=1000"),
)
"""Segments are full, compacted and deleted all the time."""

Offsets = dict[tuple[str, str], int]
"""By group and topic."""


@pytest.fixture
def small_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.storage.journal.journal.AHEAD_BYTES", 2048)

    def small_store(files: Files, data_dir: str, node_id: int, limits: Limits) -> Store:
        return Store(files, data_dir, node_id, replace(limits, journal_bytes=1500))

    monkeypatch.setattr("groupkeeper.server.directory.Store", small_store)


class Life:
    """A server, what its clients do, and what they know of it."""

    def __init__(self, seed: int, *settings: str) -> None:
        self.random = Random(seed)
        self.served = Served(*PARTITIONS, *settings, seed=seed, start=False)
        self.served.start()
        _know_folders(self.served)
        self.client = self.served.client()
        self.states: list[Offsets] = [{}]
        """All committed offsets, after each commit and each deletion of a topic."""
        self.produced: dict[str, list[bytes]] = {}
        """By topic, those of its present life."""
        self.lives: dict[str, int] = {}
        """How often each topic was made."""

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self.commit] * 12 + [self.produce] * 6
        steps += [self.make, self.delete, self.delete_records, self.idle, self.kill, self.restart]
        self.random.choice(steps)()

    def commit(self) -> None:
        if not self.produced:
            return self.make()
        group = self.random.choice(GROUPS)
        topics = self.random.sample(
            sorted(self.produced),
            self.random.randint(1, 2) % 2 + 1 if len(self.produced) > 1 else 1,
        )
        self.states.append({**self.states[-1]})
        places = {}
        for topic in topics:
            self.states[-1][group, topic] = len(self.produced[topic])
            places[topic, 0] = len(self.produced[topic])
        answer = self.client.call(8, commit_request(places, group))
        assert {p.error_code for t in answer.topics for p in t.partitions} == {0}
        return None

    def produce(self) -> None:
        if not self.produced:
            return self.make()
        topic = self.random.choice(sorted(self.produced))
        values = [b"life %d" % self.lives[topic]] * self.random.randint(1, 3)
        self.produced[topic] += values
        request = produce_request(topic, 0, *values, time=1)
        [partition] = self.client.call(9, request).responses[0].partition_responses
        assert partition.error_code == 0
        return None

    def make(self) -> None:
        missing = sorted({*TOPICS} - self.produced.keys())
        if missing:
            name = self.random.choice(missing)
            made = self.client.call(4, create_request(name))
            assert made.topics[0].error_code == 0
            self.lives[name] = self.lives.get(name, 0) + 1
            self.produced[name] = []

    def delete(self) -> None:
        if self.produced:
            name = self.random.choice(sorted(self.produced))
            del self.produced[name]
            self.states.append({at: v for at, v in self.states[-1].items() if at[1] != name})
            deleted = self.client.call(6, delete_topic_request(name))
            assert deleted.responses[0].error_code == 0

    def delete_records(self) -> None:
        if self.produced:
            name = self.random.choice(sorted(self.produced))
            offset = self.random.randint(0, len(self.produced[name]))
            self.client.call(2, delete_records_request(name, 0, offset))

    def idle(self) -> None:
        self.served.advance(0.1)

    def kill(self) -> None:
        self.served.restart()
        _know_folders(self.served)
        self.client = self.served.client()
        self.served.settled()

    def restart(self) -> None:
        self.served.stop()
        self.served.start()
        _know_folders(self.served)
        self.client = self.served.client()
        self.served.settled()


def _know_folders(served: Served) -> None:
    """As a server outside of a simulation: it misses folders that are gone."""
    served.server.topics.partitions._folders.known = served.server.store.folders


class Copy:
    """A server on the copy."""

    def __init__(self, disk: FakeDisk) -> None:
        files = {name: data for name, data in tree(disk, DEST).items() if name != "backup"}
        self.served = Served(*PARTITIONS, start=False)
        self.told: list[str] = []
        """What was repaired."""
        self.served.machine.topics_told = self.told.append
        self.served.machine.disk = self.served.disk = disk_with(files)
        self.served.start()
        _know_folders(self.served)
        self.told += self.served.server.store.take_repairs()
        self.served.settled()
        self.served.advance(5)  # deletions that were under way
        self.client = self.served.client()

    def offsets(self) -> Offsets:
        return {
            (group, topic): offset
            for group in GROUPS
            for (topic, _), offset in self.client.fetched(group).items()
        }

    def messages(self, topic: str) -> tuple[int, list[bytes | None]]:
        """The end of a topic, and its messages that are not deleted."""
        partitions = self.served.server.topics.partitions
        partition = partitions.find(topic, 0)
        assert partition is not None
        self.served.run(partitions.prepare([partition]))
        assert partition.log is not None, f"{topic} cannot be opened"
        return partition.log.next_offset, values_in(partition.log)

    def topics(self) -> list[str]:
        return [name for name in self.served.server.topics.catalog.by_name if "__" not in name]


@dataclass
class Scene:
    """A backup that was taken during a life."""

    life: Life
    begun_at: int = 0
    """The number of the state that was acknowledged before it began."""
    ends: dict[tuple[str, bytes], int] = field(default_factory=dict)
    """How many messages each topic had then, by topic and life."""

    def begin(self) -> None:
        self.begun_at = len(self.life.states) - 1
        produced = self.life.produced.items()
        self.ends = {(topic, each[0]): len(each) for topic, each in produced if each}

    def check(self) -> None:
        copy = Copy(self.life.served.disk)
        try:
            self._check_offsets(copy.offsets(), copy.topics())
            for topic in copy.topics():
                self._check_topic(topic, copy)
            assert copy.told == []
            assert set(copy.served.states()) == {"active"}
            assert all(copy.client.commit(99, group) in (0, 3) for group in GROUPS)
        finally:
            copy.served.close()

    def _check_offsets(self, found: Offsets, topics: list[str]) -> None:
        assert {topic for _, topic in found} <= {*topics}
        states = self.life.states[self.begun_at :]
        assert found in [{at: o for at, o in each.items() if at[1] in topics} for each in states]

    def _check_topic(self, topic: str, copy: Copy) -> None:
        end, messages = copy.messages(topic)
        assert len({*messages}) <= 1, "of one life"
        assert max([o for at, o in copy.offsets().items() if at[1] == topic], default=0) <= end
        if messages:
            assert end >= self.ends.get((topic, messages[0] or b""), 0)


@pytest.mark.usefixtures("small_journals")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_copy_is_a_state_that_the_server_was_in(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, scenes = Turns(seed, share=Random(seed).choice([0.2, 0.5, 0.9])), list[Scene]()
    monkeypatch.setattr("tests.simulation.cluster.FakeFiles", lambda disk: InTurns(disk, turns))

    def live(turns: Turns) -> None:
        life = Life(seed, *BUSY)
        scenes.append(Scene(life))
        for _ in range(30):
            life.step()
        scenes[0].begin()
        turns.begin()
        while not turns.over:
            life.step()
        life.served.close()

    def take() -> None:
        each = InTurns(scenes[0].life.served.disk, turns)
        back_up(each, each, job())

    turns.run(live, take)
    monkeypatch.undo()
    scenes[0].check()


class Stepping(FakeFiles):
    """Lets something happen before every call."""

    def __init__(self, disk: FakeDisk, step: Callable[[], None]) -> None:
        super().__init__(disk)
        self._happens = step

    def __getattribute__(self, name: str) -> Any:  # Any: each method has its own type
        if name in CALLS:
            object.__getattribute__(self, "_happens")()
        return super().__getattribute__(name)


def test_an_offset_that_is_committed_meanwhile_is_not_beyond_its_topic() -> None:
    life = Life(0)
    life.make()
    scene = Scene(life)
    scene.begin()

    def step() -> None:
        life.produce()
        life.commit()

    back_up(Stepping(life.served.disk, step), FakeFiles(life.served.disk), job())
    life.served.close()
    scene.check()
