"""The same noise for a real process, over real sockets, with its memory watched from outside.

Time is real here, so there is less of everything and no crashes: what virtual time cannot show is
the sockets, the threads and the size of the process.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from urllib.request import urlopen

from groupkeeper.client import Client
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.registry import APIS
from tests.fuzz.mutations import mutated, random_bytes
from tests.fuzz.peer import Peer, Rules
from tests.fuzz.requests import Maker, next_key, next_version
from tests.fuzz.town import Town
from tests.support.codecs import request_encoder
from tests.support.process import Server

PEERS = 12
ROUND_FRAMES = 600
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "socket.request.max.bytes": "1000000",
}


class Target(Server):
    """A server of its own, over a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SETTINGS)

    def rss_kib(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def tracebacks(self) -> list[str]:
        """Lines of the log that tell of an unexpected exception."""
        text = self.log.read_text(encoding="utf-8")
        return [line for line in text.splitlines() if "Traceback" in line]

    def is_ready(self) -> bool:
        """Every partition is active."""
        with urlopen(f"http://{self.http}/readyz", timeout=10) as page:
            return b'"ready": true' in page.read()


MORE_S = 60.0


class Noise:
    """Rounds of frames, real and damaged, until the time is over."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._chance = Random(seed)
        self.notes: list[str] = []
        self.frames = 0
        self.answers = 0
        self.rss: list[int] = []
        """Of the server, in KiB, after each round."""

    async def run(self, seconds: float, answers: int = 0) -> None:
        """Longer, if so many answers have not come: up to a minute."""
        async with Client(self._target.bootstrap) as client:
            asked = ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")
            versions = await client.call(asked)
        routes = {each.api_key: None for each in versions.api_keys if each.api_key in APIS}
        rules = Rules(routes, 1_000_000, self.notes.append)
        began, number = time.monotonic(), 0
        while not self.notes and self._target.is_alive:
            took = time.monotonic() - began
            if took >= seconds and (self.answers > answers or took > seconds + MORE_S):
                break
            await self._round(Town(f"r{number}", self._chance), rules)
            self.rss.append(self._target.rss_kib())
            number += 1

    async def _round(self, town: Town, rules: Rules) -> None:
        peers: list[Peer] = []
        everybody: list[Peer] = []
        for _ in range(ROUND_FRAMES):
            peers = [peer for peer in peers if peer.usable]
            if len(peers) == PEERS:  # one of those that wait goes away
                peers.pop(0).hang_up()
            idle = [peer for peer in peers if not peer.owed]
            if not idle:
                idle = [await self._connect(rules, town)]
                peers += idle
                everybody += idle
            self._send(self._chance.choice(idle), town, list(rules.routes))
            await asyncio.sleep(0 if self._chance.random() < 0.5 else 0.001)
        await asyncio.sleep(0.05)
        for peer in peers:
            peer.hang_up()
        self.answers += sum(peer.answered for peer in everybody)
        async with Client(self._target.bootstrap) as client:
            await client.call(DeleteTopicsRequest(topic_names=town.topics, timeout_ms=5_000))
            await client.call(DeleteGroupsRequest(groups_names=town.groups))

    async def _connect(self, rules: Rules, town: Town) -> Peer:
        peer = Peer(rules, town, self._chance)
        await asyncio.get_running_loop().create_connection(lambda: peer, *self._target.kafka)
        return peer

    def _send(self, peer: Peer, town: Town, keys: list[int]) -> None:
        chance = self._chance
        person = chance.choice(town.people)
        key = next_key(chance, person, keys)
        version = next_version(chance, person, key)
        request = Maker(chance, town, person, version).message(APIS[key].request_type)
        frame = request_encoder(key, version)(request, self.frames, person.client_id)
        town.frames.append(frame)
        self.frames += 1
        if chance.random() < 0.8:
            peer.send(frame, person)
        elif chance.random() < 0.8:
            peer.send(mutated(chance, frame, town.frames))
        else:
            peer.send(random_bytes(chance, keys))


async def watch(seconds: float, seed: int) -> None:
    """Fuzz a process for so long and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        target.start()
        try:
            noise = Noise(target, seed)
            await noise.run(seconds)
            print(noise.frames, "frames", noise.answers, "answers, RSS KiB", noise.rss)
            print(noise.notes, target.tracebacks()[:3], target.is_ready())
        finally:
            target.kill()


if __name__ == "__main__":
    asyncio.run(watch(float(sys.argv[1]), int(sys.argv[2])))
