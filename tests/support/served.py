"""A whole server in memory, under virtual time, driven from a plain test function.

    served = Served()
    client = served.client()
    assert client.call(12, 4, HeartbeatRequest(...)).error_code == 25

``call`` runs the loop until the answer is there; ``send`` does not wait, ``take`` collects later.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from coordinator.placement import partition_of
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.registry import request_encoder, response_decoder
from tests.simulation.cluster import ADDRESS, Machine
from tests.support.virtual_loop import Pipe, VirtualLoop

FAST = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")


class Client(asyncio.Protocol):
    """A raw connection: frames out, frames in."""

    def __init__(self, served: "Served") -> None:
        self._served = served
        self._buffer = b""
        self.frames: list[bytes] = []
        self.writes: list[bytes] = []
        """What arrived, as it arrived."""
        self.closed = False
        self.pipe: Pipe = served.loop.dial(ADDRESS, self)
        self._correlation_id = 0
        self._sent: list[tuple[int, int]] = []

    def data_received(self, data: bytes) -> None:
        self.writes.append(data)
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            self.frames.append(self._buffer[:end])
            self._buffer = self._buffer[end:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def frame(self, key: int, version: int, request: Any) -> bytes:
        """The bytes of a request, noted as sent."""
        self._correlation_id += 1
        self._sent.append((key, version))
        return request_encoder(key, version)(request, self._correlation_id, "tester")

    def send(self, key: int, version: int, request: Any) -> None:
        self.pipe.write(self.frame(key, version, request))

    def take(self) -> Any:
        """The next answer; runs the loop until it is there."""
        self._served.until(lambda: bool(self.frames) or self.closed)
        assert self.frames, "the server hung up"
        frame = self.frames.pop(0)
        key, version = self._sent.pop(0)
        return response_decoder(key, version)(frame, 4, len(frame))[1]

    def call(self, key: int, version: int, request: Any) -> Any:
        self.send(key, version, request)
        return self.take()


class Served:
    """A server with two topics, ``orders`` and ``payments``, of six partitions each."""

    def __init__(self, *assignments: str, seed: int = 0) -> None:
        self.loop = VirtualLoop(seed)
        Pipe.LATENCY_S = (0.0001, 0.0002)
        asyncio.set_event_loop(self.loop)
        self.machine = Machine(self.loop, lambda line: None, *FAST, *assignments)
        self.run(self.machine.start())
        topics = [
            CreatableTopic(name=name, num_partitions=6, replication_factor=1)
            for name in ("orders", "payments")
        ]
        self.client().call(19, 4, CreateTopicsRequest(topics=topics, timeout_ms=1000))

    @property
    def server(self) -> Any:
        assert self.machine.server is not None
        return self.machine.server

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def client(self) -> Client:
        return Client(self)

    def until(self, done: Callable[[], bool], seconds: float = 600.0) -> None:
        """Let time pass until something is so."""
        limit = self.loop.time() + seconds
        while not done():
            assert self.loop.time() < limit, "it did not happen"
            self.run(asyncio.sleep(0.0005))

    def advance(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def restart(self, crash: Callable[[], None] | None = None) -> None:
        (crash or self.machine.kill)()
        self.run(self.machine.start())

    def host(self, group_id: str) -> Any:
        return self.server.hosts.of(group_id)

    def close(self) -> None:
        asyncio.set_event_loop(None)
        self.loop.close()


def join_request(group_id: str = "g", member_id: str = "", **fields: Any) -> JoinGroupRequest:
    """A JoinGroup that a real consumer could send."""
    wanted = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | fields
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\6orders\0\0\0\0")]
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        **wanted,
    )


def settle(client: Client, group_id: str = "g", **fields: Any) -> tuple[str, int]:
    """Join a group alone and bring it to Stable; returns member id and generation."""
    joined = client.call(11, 3, join_request(group_id, **fields))
    assert joined.error_code == 0
    plan = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"plan")]
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=plan,
    )
    assert client.call(14, 1, request).assignment == b"plan"
    return joined.member_id, joined.generation_id


def groups_apart(partitions: int = 50) -> tuple[str, str]:
    """Two group ids that live in different partitions."""
    first = "g"
    ids = (f"g{number}" for number in range(1000))
    return first, next(
        g for g in ids if partition_of(g, partitions) != partition_of(first, partitions)
    )
