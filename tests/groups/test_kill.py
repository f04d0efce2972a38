"""kill -9 in the middle of a commit load, fifty times: what was acknowledged is there."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from groupkeeper.protocol.errors import ErrorCode
from tests.support.process import Server
from tests.support.requests import codes_of, commit_request, create_request, fetch_request
from tests.support.wire import Address, Client, connect

KILLS = 50
GROUPS = [f"group-{number}" for number in range(8)]
SETTINGS = {"offsets.topic.num.partitions": "5", "offsets.topic.segment.bytes": "100000"}


@dataclass
class Ledger:
    """What was sent and what was acknowledged, by group."""

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    acknowledgements: Counter[str] = field(default_factory=Counter)

    def load(self, address: Address, group_id: str) -> None:
        """Commit one offset after another, to two partitions each, until the server dies."""
        with suppress(OSError), connect(address) as client:
            while True:
                self.sent[group_id] = offset = self.sent[group_id] + 1
                request = commit_request({("t", 0): offset, ("t", 1): offset}, group_id)
                if set(codes_of(client.call(8, request)).values()) == {0}:
                    self.acknowledged[group_id] = offset
                    self.acknowledgements[group_id] += 1

    def check(self, address: Address) -> None:
        """Everything acknowledged is found, and nothing that was never sent."""
        with connect(address) as client:
            for group_id in GROUPS:
                for offset in fetched(client, group_id):
                    assert self.acknowledged[group_id] <= offset <= self.sent[group_id], group_id


def fetched(client: Client, group_id: str) -> list[int]:
    """The committed offsets of both partitions, once the group's partition is loaded."""
    topics = {"t": [0, 1]}
    while True:
        [group] = client.call(8, fetch_request(group_id, topics=topics)).groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert group.error_code == 0
            return [max(each.committed_offset, 0) for each in group.topics[0].partitions]
        time.sleep(0.002)


def create_topic(address: Address) -> None:
    with connect(address) as client:
        response = client.call(4, create_request("t", partitions=2))
    assert response.topics[0].error_code == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_was_acknowledged_survives_fifty_kills(tmp_path: Path) -> None:
    chance, ledger, server = random.Random(9), Ledger(), Server(tmp_path, SETTINGS)
    server.start()
    try:
        create_topic(server.kafka)
        for number in range(KILLS):
            with ThreadPoolExecutor(len(GROUPS)) as pool:
                loads = [pool.submit(ledger.load, server.kafka, each) for each in GROUPS]
                time.sleep(chance.uniform(0.02, 0.25))
                server.kill()
            for load in loads:
                load.result()
            if number % 5 == 4:  # and once more while it reads its log, or before
                server.launch()
                time.sleep(chance.uniform(0.05, 0.4))
                server.kill()
            server.start()
            ledger.check(server.kafka)
    finally:
        server.kill()
    acknowledged = ledger.acknowledgements.total()
    print(f"{KILLS} kills, {acknowledged} commits acknowledged, none lost")
    assert acknowledged > 10 * KILLS
