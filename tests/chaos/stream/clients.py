"""Clients that commit, rebalance and leave, whatever the server does; and what it acknowledged."""

import itertools
import threading
import time
from random import Random

from tests.chaos.wire import Client
from tests.support.consumer import Member
from tests.support.requests import create_request, flat_fetch_request
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
            client.call(4, create_request(TOPIC, partitions=PARTITIONS))
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
            if not any(member.committed({(TOPIC, partition): offset})):
                with self._lock:
                    self._acknowledged.add((member.group_id, partition, offset))
            self._over.wait(PAUSE_SECONDS)


class _Member(Member):
    """Whatever the server answers, it goes on."""

    def __init__(self, client: Client, group: str) -> None:
        super().__init__(client, group, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)

    def join(self) -> None:
        joined = self.client.call(3, self.join_request())
        if joined.error_code:
            self.member_id, self.generation = "", -1
            return
        plan = dict.fromkeys(self.take_join(joined), b"all")
        self.client.call(3, self.sync_request(plan))

    def has_to_join(self) -> bool:
        return self.generation < 0 or bool(self.beat())
