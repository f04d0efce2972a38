"""A process that stood still reads what came meanwhile before it ends sessions."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.groups.driver import LATE_MS
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.registry import request_encoder, response_decoder
from tests.support.requests import heartbeat, join_request, sync_request
from tests.support.served import Served, settle

ROOT = Path(__file__).parents[2]
MEMBERS = 700
"""More than are read in one iteration of the loop."""
SESSION_MS = 3_000
PAUSE_S = 5.0


class Member:
    """A member of a group of its own, which beats whether it is answered or not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.sent = 0
        self.member_id, self.generation = "", 0
        self.group_id = ""

    async def call(self, key: int, version: int, request: Any) -> Any:
        self.send(key, version, request)
        return await self.take(key, version)

    def send(self, key: int, version: int, request: Any) -> None:
        self._writer.write(request_encoder(key, version)(request, 1, "pause"))

    async def take(self, key: int, version: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return response_decoder(key, version)(await self._reader.readexactly(size), 0, size)[1]

    async def settle(self, group_id: str) -> None:
        self.group_id = group_id
        join = join_request(group_id, "", session_timeout_ms=SESSION_MS)
        joined = await self.call(ApiKey.JOIN_GROUP, 3, join)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        plan = {self.member_id: b"plan"}
        await self.call(
            ApiKey.SYNC_GROUP, 3, sync_request(self.member_id, self.generation, group_id, plan)
        )

    def beat(self) -> None:
        self.sent += 1
        self.send(ApiKey.HEARTBEAT, 3, heartbeat(self.member_id, self.generation, self.group_id))

    async def beaten(self) -> list[int]:
        codes = [(await self.take(ApiKey.HEARTBEAT, 3)).error_code for _ in range(self.sent)]
        self.sent = 0
        return codes

    def close(self) -> None:
        self._writer.close()


async def beat_once(members: list[Member]) -> None:
    for member in members:
        member.beat()
    for member in members:
        assert await member.beaten() == [0]


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "groupkeeper", "serve", "--dev", "--listen", "127.0.0.1:0"),
        *("--http", "off", "--data-dir", str(tmp_path / "data")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
    yield process, int(line.split()[2].rpartition(":")[2])
    os.kill(process.pid, signal.SIGCONT)
    process.kill()
    await process.wait()


async def test_members_that_beat_survive_a_stopped_process(server: Any) -> None:
    process, port = server
    members = [Member(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(MEMBERS)]
    for number, member in enumerate(members):
        await member.settle(f"group-{number}")
        if not number % 50:  # on a slow machine, all take longer than a session
            await beat_once(members[: number + 1])
    await beat_once(members)  # all sessions begin together
    os.kill(process.pid, signal.SIGSTOP)
    for _ in range(2):
        for member in members:
            member.beat()
        await asyncio.sleep(PAUSE_S / 2)
    os.kill(process.pid, signal.SIGCONT)
    for member in members:
        assert set(await member.beaten()) == {0}
        member.close()


@pytest.fixture
def late(serve: Callable[..., Served]) -> Served:
    return serve("offsets.topic.num.partitions=1")


def stand_still(served: Served, seconds: float, meanwhile: Callable[[], None]) -> None:
    """The process does nothing for so long; what happens meanwhile is in the sockets then."""

    async def still() -> None:
        served.loop.idle.now += seconds
        served.loop.call_soon(meanwhile)

    served.run(still())


def test_who_beat_while_the_process_stood_still_stays(late: Served) -> None:
    client = late.client()
    member_id, generation = settle(client, session_timeout_ms=10_000)
    frame = client.frame(ApiKey.HEARTBEAT, 4, heartbeat(member_id, generation))
    stand_still(late, 30.0, lambda: client.pipe.peer.protocol.data_received(frame))  # type: ignore[union-attr]
    assert client.take().error_code == 0
    late.advance(9.0)
    assert late.members() == 1


def test_who_did_not_beat_goes_at_once(late: Served) -> None:
    client = late.client()
    settle(client, session_timeout_ms=10_000)
    stand_still(late, 30.0, lambda: None)
    late.advance(0.001)
    assert late.members() == 0


def test_a_session_that_ends_on_time_is_not_prolonged(late: Served) -> None:
    """A beat that comes with its end comes too late."""
    client = late.client()
    settle(client, session_timeout_ms=10_000)
    late.advance(10.0 + LATE_MS / 2_000)
    assert late.members() == 0
