"""Clients that commit, rebalance and leave, whatever the server does; and what it acknowledged."""

import itertools
import threading
import time
from random import Random

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.chaos.wire import Client
from tests.support.requests import (
    codes_of,
    commit_request,
    flat_fetch_request,
    heartbeat,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.wire import Address

TOPIC = "read"
PARTITIONS = 4
RECONNECT_SECONDS = 0.05
PAUSE_SECONDS = 0.004
ANSWER_SECONDS = 15.0
SESSION_MS = 6_000
REBALANCE_MS = 2_000
COMMITS = 20
"""After so many commits a member asks whether its group rebalances."""
TURNS = 6
"""It leaves after so many times as many, at most."""

Commit = tuple[str, int, int]
"""Group, partition, offset."""


class Crowd:
    """Groups of one and of two members."""

    def __init__(self, address: Address, groups: int, seed: int) -> None:
        self._address = address
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._acknowledged: set[Commit] = set()
        self.joins = 0
        self._groups = names = [f"group-{number}" for number in range(groups)]
        self._threads = [
            threading.Thread(target=self._work, args=(number, group, seed), daemon=True)
            for number, group in enumerate([*names, *names[::2]])
        ]

    @property
    def acknowledged(self) -> set[Commit]:
        with self._lock:
            return set(self._acknowledged)

    def start(self) -> None:
        """Make the topic, and start all clients."""
        with Client(self._address) as client:
            topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
            client.call(4, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)

    def wait_loaded(self, address: Address) -> None:
        """Until a server that has started anew has read what it has of all groups."""
        with Client(address, timeout=ANSWER_SECONDS) as client:
            for group in self._groups:
                while client.call(5, flat_fetch_request(group)).error_code:
                    time.sleep(RECONNECT_SECONDS)

    def _work(self, number: int, group: str, seed: int) -> None:
        chance = Random(seed * 1000 + number)
        offsets = itertools.count(number * 10**9)
        while not self._over.is_set():
            try:
                with Client(self._address, timeout=ANSWER_SECONDS) as client:
                    while not self._over.is_set():
                        member = _Member(client, group)
                        for _ in range(chance.randrange(1, TURNS)):
                            self._turn(member, offsets)
                        member.leave()
            except OSError:
                self._over.wait(RECONNECT_SECONDS)

    def _turn(self, member: "_Member", offsets: "itertools.count[int]") -> None:
        """Commits of offsets that are in use once. Raises OSError."""
        if member.has_to_join():
            member.join()
            with self._lock:
                self.joins += 1
        for _ in range(COMMITS):
            if self._over.is_set():
                return
            offset = next(offsets)
            partition = offset % PARTITIONS
            if member.commit(partition, offset):
                with self._lock:
                    self._acknowledged.add((member.group, partition, offset))
            self._over.wait(PAUSE_SECONDS)


class _Member:
    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self.group = group
        self._who, self._generation = "", -1

    def join(self) -> None:
        request = join_request(
            self.group, self._who, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS
        )
        joined = self._client.call(3, request)
        if joined.error_code:
            self._who, self._generation = "", -1
            return
        self._who, self._generation = joined.member_id, joined.generation_id
        plan = {each.member_id: b"all" for each in joined.members}
        self._client.call(3, sync_request(self._who, self._generation, self.group, plan))

    def has_to_join(self) -> bool:
        if self._generation < 0:
            return True
        request = heartbeat(self._who, self._generation, self.group)
        return bool(self._client.call(3, request).error_code)

    def commit(self, partition: int, offset: int) -> bool:
        """Whether it was acknowledged."""
        places = {(TOPIC, partition): offset}
        request = commit_request(places, self.group, self._who, self._generation)
        return not any(codes_of(self._client.call(7, request)).values())

    def leave(self) -> None:
        self._client.call(3, leave_request(self._who, group_id=self.group))
