"""kill -9 in the middle of a commit load, fifty times: what was acknowledged is there."""

import asyncio
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.registry import request_encoder, response_decoder
from tests.support.requests import codes_of, commit_request, fetch_request

KILLS = 50
GROUPS = [f"group-{number}" for number in range(8)]
SETTINGS = ["offsets.topic.num.partitions=5", "offsets.topic.segment.bytes=100000"]
ROOT = Path(__file__).parents[2]


class Process:
    """The real server over one data directory, which outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    async def launch(self) -> None:
        arguments = ["--listen", "127.0.0.1:0", "--http", "off", "--data-dir", str(self.folder)]
        for each in SETTINGS:
            arguments += ["--set", each]
        with (self.folder.parent / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "groupkeeper", "serve", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )

    async def start(self) -> None:
        await self.launch()
        assert self._process is not None
        assert self._process.stdout is not None
        line = (await asyncio.wait_for(self._process.stdout.readline(), 30)).decode()
        assert line.startswith("groupkeeper ready kafka=127.0.0.1:"), line
        self.port = int(line.split()[2].rpartition(":")[2])

    async def kill(self) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class Connection:
    """A socket, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, key: int, version: int, request: Any) -> Any:
        self.writer.write(request_encoder(key, version)(request, 1, "load"))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        return response_decoder(key, version)(frame, 0, size)[1]


@dataclass
class Ledger:
    """What was sent and what was acknowledged, by group."""

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    acknowledgements: int = 0

    async def load(self, port: int, group_id: str) -> None:
        """Commit one offset after another, to two partitions each, until the server dies."""
        try:
            connection = await Connection.open(port)
            while True:
                self.sent[group_id] = offset = self.sent[group_id] + 1
                request = commit_request({("t", 0): offset, ("t", 1): offset}, group_id)
                codes = codes_of(await connection.call(ApiKey.OFFSET_COMMIT, 8, request)).values()
                if set(codes) == {0}:
                    self.acknowledged[group_id] = offset
                    self.acknowledgements += 1
        except (OSError, asyncio.IncompleteReadError):
            return

    async def check(self, port: int) -> None:
        """Everything acknowledged is found, and nothing that was never sent."""
        connection = await Connection.open(port)
        for group_id in GROUPS:
            for offset in await fetched(connection, group_id):
                assert self.acknowledged[group_id] <= offset <= self.sent[group_id], group_id
        connection.writer.close()


async def fetched(connection: Connection, group_id: str) -> list[int]:
    """The committed offsets of both partitions, once the group's partition is loaded."""
    topics = {"t": [0, 1]}
    while True:
        response = await connection.call(
            ApiKey.OFFSET_FETCH, 8, fetch_request(group_id, topics=topics)
        )
        [group] = response.groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert group.error_code == 0
            return [max(each.committed_offset, 0) for each in group.topics[0].partitions]
        await asyncio.sleep(0.002)


async def create_topic(port: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    connection = await Connection.open(port)
    response = await connection.call(
        ApiKey.CREATE_TOPICS, 4, CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    )
    assert response.topics[0].error_code == 0
    connection.writer.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_what_was_acknowledged_survives_fifty_kills(tmp_path: Path) -> None:
    chance, ledger, process = random.Random(9), Ledger(), Process(tmp_path / "data")
    await process.start()
    try:
        await create_topic(process.port)
        for number in range(KILLS):
            loads = [asyncio.create_task(ledger.load(process.port, each)) for each in GROUPS]
            await asyncio.sleep(chance.uniform(0.02, 0.25))
            await process.kill()
            await asyncio.gather(*loads)
            if number % 5 == 4:  # and once more while it reads its log, or before
                await process.launch()
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                await process.kill()
            await process.start()
            await ledger.check(process.port)
    finally:
        await process.kill()
    print(f"{KILLS} kills, {ledger.acknowledgements} commits acknowledged, none lost")
    assert ledger.acknowledgements > 10 * KILLS
