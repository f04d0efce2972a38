"""Kills of a server in the middle of hand-overs: `python -m tests.kills --seats`.

Consumers are threads with connections of their own, three in each group, and processes of client
libraries, and partitions of lost ones are reserved. In each round some of them end without a word,
freeze, or leave, and are started again under their names, at once or after their sessions; a random
moment later the server is killed. In the end its whole log is read, record by record.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import decode
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.protocol.records.consumer_offsets import decode_key
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.store import Store
from tests.chaos.wire import Client, dial
from tests.clients.libraries import Library
from tests.kills.crowd import PARTITIONS, TOPIC
from tests.kills.seat_libraries import Libraries
from tests.seats.oracle import Broken, Durable
from tests.seats.plans import Place
from tests.support import wire
from tests.support.consumer import Membership, dealt, partitions_in, subscription
from tests.support.process import Server
from tests.support.requests import create_request, fetch_request
from tests.support.wire import Address

GROUPS, SLOTS, LOGS = 4, 3, 2
SESSION_MS, GRACE_MS = 1_500, 6_000
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.classic.scheduled.rebalance.max.delay.ms": str(GRACE_MS),
    "group.classic.reserve.on": "lost,left",
    "offsets.topic.num.partitions": str(LOGS),
    "log.cleaner.enable": "false",
}
BEAT_S = 0.1
RECONNECT_S = 0.03
ANSWER_S = 20.0
HAND_OVER_S = 0.08
"""About how long one takes, from the first request of the newcomer to its first commit."""
SETTLE_S = 90.0
"""aiokafka waits for the answer to a JoinGroup for 40 s."""
ENDS: Final = ("at once", "at once", "after its session", "frozen", "left", "nothing")


class Told:
    """What clients were told, of all lives of the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.broken: list[str] = []
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.counts: Counter[str] = Counter()
        self._owners: dict[tuple[str, int, int], str] = {}
        self._last: dict[tuple[str, int], Life] = {}

    def assigned(self, life: "Life") -> None:
        with self.lock:
            self.counts["assignments"] += 1
            for partition in life.assignment:
                place = life.group_id, life.generation, partition
                owner = self._owners.setdefault(place, life.name)
                if owner != life.name:
                    self.broken.append(f"{place} is given to {owner} and {life.name}")
                self._last[life.group_id, partition] = life

    def is_superseded(self, life: "Life") -> bool:
        """Whether somebody else was told that a partition of the client is its own."""
        with self.lock:
            return any(self._last[life.group_id, each] is not life for each in life.assignment)

    def committed(self, life: "Life", offsets: dict[int, int], superseded: bool) -> None:
        with self.lock:
            self.counts["commits"] += 1
            if superseded:
                self.broken.append(f"{life.name} commits {offsets}, which another one has")
            for partition, offset in offsets.items():
                place = life.group_id, partition
                if offset < self.acknowledged.get(place, -1):
                    self.broken.append(f"{life.name} commits {place} back to {offset}")
                self.acknowledged[place] = offset


class Life(Membership):
    """One process of a consumer, from its start to its end."""

    def __init__(self, group_id: str, name: str, address: Address, told: Told) -> None:
        metadata = subscription(TOPIC)
        super().__init__(group_id, None, SESSION_MS, 3_000, metadata=metadata)
        self.name, self.assignment, self.commits = name, list[int](), 0
        self.ended = threading.Event()
        self.freeze_s = 0.0
        self._address, self._told = address, told
        self._client: wire.Client | None = None
        self._positions: dict[int, int] = {}
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def end(self, *, politely: bool = False) -> None:
        """kill -9, unless politely: the connection breaks."""
        self.ended.set()
        self._thread.join(ANSWER_S)
        client = self._client
        if client is not None:
            if politely:
                with suppress(OSError):
                    client.call(3, self.leave_request())
            client.close()

    def _work(self) -> None:
        while not self.ended.is_set():
            try:
                if self._client is None:
                    dialled = dial(self._address)
                    self._client = wire.Client(dialled, ANSWER_S, client_id=self.name)
                self._step(self._client)
            except OSError:
                if self._client is not None:
                    self._client.close()
                self._client = None
                self.ended.wait(RECONNECT_S)
            except Exception as error:
                self._told.broken.append(f"{self.name} ends: {error!r}")
                raise

    def _step(self, client: wire.Client) -> None:
        if self.generation < 0:
            self._join(client)
            return
        self._commit(client)
        self.ended.wait(BEAT_S)
        if self.freeze_s:
            frozen, self.freeze_s = self.freeze_s, 0.0
            self.ended.wait(frozen)
        elif self.generation >= 0 and not self.ended.is_set():
            self.heed(client.call(4, self.heartbeat_request()).error_code)

    def _join(self, client: wire.Client) -> None:
        joined = client.call(9, self.join_request())
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = client.call(9, self.join_request())
        if joined.error_code:
            self.heed(joined.error_code)
            self.ended.wait(RECONNECT_S)
            return
        plan = dealt(sorted(self.take_join(joined)), TOPIC, PARTITIONS)
        request, generation, self.generation = self.sync_request(plan), self.generation, -1
        synced = client.call(5, request)
        if synced.error_code:
            self.heed(synced.error_code)
            return
        self.generation = generation
        self.assignment = partitions_in(synced.assignment)
        self._told.assigned(self)
        [group] = client.call(8, fetch_request(self.group_id)).groups
        rows = (each for topic in group.topics for each in topic.partitions)
        known = {each.partition_index: each.committed_offset for each in rows}
        if group.error_code:
            self.generation = -1  # join again rather than begin anywhere
        self._positions = {each: max(known.get(each, 0), 0) for each in self.assignment}

    def _commit(self, client: wire.Client) -> None:
        offsets = {each: at + 1 for each, at in self._positions.items()}
        if not offsets:
            return
        superseded = self._told.is_superseded(self)
        places = {(TOPIC, each): offset for each, offset in offsets.items()}
        reply = client.call(8, self.commit_request(places))
        [error] = {each.error_code for each in reply.topics[0].partitions}
        if error:
            self.heed(error)
            return
        self._positions = offsets
        self.commits += 1
        self._told.committed(self, offsets, superseded)


@dataclass
class Found:
    """What happened."""

    kills: int = 0
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class _Crowd:
    """The groups, and who is in each place of them."""

    def __init__(self, address: Address, chance: Random, libraries: Libraries) -> None:
        self._address, self._chance = address, chance
        self.libraries = libraries
        self.told = Told()
        self.groups = [f"seats-{number}" for number in range(GROUPS)]
        names = itertools.product(self.groups, range(SLOTS))
        self.lives: dict[str, Life] = {}
        for group, slot in names:
            self.begin(f"{group}-{slot}")
        self._frozen: list[Life] = []

    def begin(self, name: str) -> None:
        """The process is started again."""
        self.lives[name] = Life(name.rpartition("-")[0], name, self._address, self.told)

    def some_end(self) -> list[str]:
        """One of each group; returns those that were not started again at once."""
        later = []
        for group in self.groups:
            name = f"{group}-{self._chance.randrange(SLOTS)}"
            how = self._chance.choice(ENDS)
            self.told.counts[f"ended: {how}"] += 1
            if how == "frozen":
                self.lives[name].freeze_s = SESSION_MS / 1_000 * 2
                self._frozen.append(self.lives[name])
            elif how != "nothing":
                self.lives[name].end(politely=how == "left")
            if how in ("after its session", "frozen"):
                later.append(name)
            elif how != "nothing":
                self.begin(name)
        return later

    def end(self) -> None:
        for life in [*self.lives.values(), *self._frozen]:
            life.ended.set()
        for life in [*self.lives.values(), *self._frozen]:
            life.end()
        self.libraries.end()

    def thaw(self) -> None:
        """Those that were frozen have seen that they are not needed, and end."""
        for life in self._frozen:
            life.end()
        self._frozen.clear()


def run(kills: int, seed: int, folder: Path, say: Any, libraries: Sequence[Library] = ()) -> Found:
    """Raises AssertionError if the server does not start, or the groups do not form."""
    server, chance, found = Server(folder, SETTINGS), Random(seed), Found()
    server.start()
    client = Client(server.kafka)
    client.call(4, create_request(TOPIC, partitions=PARTITIONS))
    client.close()
    crowd = _Crowd(server.kafka, chance, Libraries(libraries, server.kafka, folder, chance))
    try:
        _settle(crowd, server.kafka)
        for number in range(1, kills + 1):
            say(f"kill {number} of {kills}, {crowd.told.counts['commits']} commits")
            _round(crowd, server, chance)
            found.kills += 1
            found.broken += _look(crowd, server.kafka)
        _settle(crowd, server.kafka)
    finally:
        crowd.end()
        server.stop()
    found.broken += crowd.told.broken
    found.counts = crowd.told.counts
    found.counts["consumers of libraries killed"] = crowd.libraries.ended
    found.counts["consumers of libraries that raised an error"] = crowd.libraries.failed
    _read(server.data_dir, found)
    return found


def _round(crowd: _Crowd, server: Server, chance: Random) -> None:
    """Some members end, perhaps are lost, and come back; then the server dies."""
    crowd.libraries.some_end()
    later = crowd.some_end()
    if later:
        time.sleep(SESSION_MS / 1_000 + chance.uniform(-0.1, 0.5))
        for name in later:
            crowd.begin(name)
    time.sleep(chance.uniform(0, HAND_OVER_S))
    server.kill()
    server.start()
    time.sleep(chance.uniform(0, 1.0))
    crowd.thaw()


def _settle(crowd: _Crowd, address: Address) -> None:
    """Everybody commits, and all groups are Stable with all partitions owned."""
    before = {name: life.commits for name, life in crowd.lives.items()}
    before |= crowd.libraries.commits()
    until = time.monotonic() + SETTLE_S
    waits: list[str] = ["all"]
    while waits:
        states = [
            f"{life!r} {life.assignment}" for name, life in crowd.lives.items() if name in waits
        ]
        assert time.monotonic() < until, f"not settled: {waits}, {states}, {crowd.told.broken}"
        time.sleep(0.2)
        now = {name: life.commits for name, life in crowd.lives.items()}
        now |= crowd.libraries.commits()
        waits = [name for name, commits in now.items() if commits < before.get(name, 0) + 3]
        waits += _look(crowd, address, whole=True)


def _look(crowd: _Crowd, address: Address, *, whole: bool = False) -> list[str]:
    """What is wrong with the groups as the server describes them."""
    with Client(address) as client:
        groups = [*crowd.groups, *crowd.libraries.groups]
        described = client.call(4, DescribeGroupsRequest(groups=groups)).groups
        wrong = _missing(crowd.libraries.promised(), client)
    for group in described:
        shares = [bytes(each.member_assignment) for each in group.members]
        held = Counter(p for share in shares if share for p in partitions_in(share))
        if any(count > 1 for count in held.values()):
            wrong.append(f"{group.group_id}: {held}")
        if group.group_state == "Stable" and len(held) < PARTITIONS:
            wrong.append(f"{group.group_id}: only {sorted(held)} are owned or reserved")
        if whole and group.group_state != "Stable":
            wrong.append(f"{group.group_id} is {group.group_state}")
    return wrong


def _missing(promised: Mapping[str, Mapping[Place, int]], client: Client) -> list[str]:
    """Offsets that were acknowledged and are not there."""
    wrong = []
    for group_id, offsets in promised.items():
        [group] = client.call(8, fetch_request(group_id)).groups
        found = {
            (topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }
        if not group.error_code:
            back = {place: at for place, at in offsets.items() if found.get(place, -1) < at}
            wrong += [f"{group_id}: {found} instead of {back}"] if back else []
    return wrong


# -- the log, record by record ---------------------------------------------------------------------


def _read(data_dir: Path, found: Found) -> None:
    store = Store(Files(), str(data_dir), 0)
    for shard in range(LOGS):
        store.claim(shard)
        _read_records(store.recover_log(f"__consumer_offsets-{shard}"), found)
        for record in _records(store.recover_log(f"__group_events-{shard}")):
            if record.value is not None:
                event = decode(record.key, record.value)
                if event.type.startswith(("seat_", "member_replaced")):
                    found.counts[f"event {event.type}"] += 1


def _records(log: Any) -> Any:
    for piece in log.batches(log.start_offset):
        for header in iter_batches(piece):
            yield from decode_records(piece, header)


def _read_records(log: Any, found: Found) -> None:
    """Of each group: no partition is in two assignments, no offset goes back, and a seat that is
    gone was taken or given up for good: its member is in no record again.
    """
    durable: dict[str, Durable] = {}
    gone: set[str] = set()
    for record in _records(log):
        key = decode_key(record.key)
        group_id = getattr(key, "group", "")
        known = durable.setdefault(group_id, Durable())
        before = set(known.seats)
        try:
            known.take([(record.key, record.value)])
        except Broken as broken:
            found.broken.append(f"{group_id}: {broken}")
        found.counts["seats reserved"] += len(known.seats - before)
        found.counts["seats gone"] += len(before - known.seats)
        gone |= before - known.seats
        back = gone & (known.shares.keys() | known.seats)
        if back:
            found.broken.append(f"{group_id}: {back} had seats that were taken, and are back")


def words(found: Found) -> list[str]:
    """Lines for a person."""
    lines = [f"{found.kills} kills in the middle of hand-overs"]
    lines += [f"{count:8,} {what}" for what, count in sorted(found.counts.items())]
    lines.append(f"{len(found.broken)} promises broken")
    return lines + [f"LOST {each}" for each in found.broken[:20]]
