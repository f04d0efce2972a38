"""A consumer as clients are, under virtual time: joins, syncs, beats, commits, rejoins when told,
reconnects when cut.

It speaks the wire protocol through the real codec. What it was told is kept, so that a test can
hold the server to it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from tests.support.consumer import Membership, dealt, partitions_in, subscription
from tests.support.requests import fetch_request
from tests.support.virtual_loop import Address, VirtualLoop
from tests.support.wire import Exchange, Frames

TOPIC, PARTITIONS = "orders", 12


class Wire(asyncio.Protocol):
    """One connection of a client: requests out, answers in, in order."""

    def __init__(self, client_id: str, heard: Callable[[], None] = lambda: None) -> None:
        """`heard` is told about every answer, before the client is."""
        self._heard = heard
        self._frames = Frames()
        self._exchange = Exchange(client_id)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        for future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionError("cut"))
        self._waiting.clear()

    def call(self, version: int, request: Message) -> "asyncio.Future[Any]":
        if self.transport is None:
            raise ConnectionError("cut")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.transport.write(self._exchange.request(version, request))
        return future

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            future, response = self._waiting.popleft(), self._exchange.response(frame)
            self._heard()
            if not future.done():
                future.set_result(response)


class Consumer(Membership):
    """One member, as long as its task runs."""

    def __init__(
        self, loop: VirtualLoop, address: Address, name: str, instance_id: str | None = None
    ) -> None:
        super().__init__("billing", instance_id, rebalance_ms=30_000, metadata=subscription(TOPIC))
        self.loop = loop
        self.address = address
        self.name = name
        self.assignment: list[int] = []
        self.acknowledged: dict[int, int] = {}
        self.wire: Wire | None = None
        self.synced: Callable[[Consumer], None] = lambda consumer: None
        """Called with every assignment."""
        self.committed: Callable[[Consumer, int, set[int]], None] = lambda *_: None
        """Called with the generation and partitions of every commit that was accepted."""
        self.newest: Callable[[], int] = lambda: -1
        """The newest generation in which any consumer was given something."""
        self.freeze_s = 0.0
        """How long it stands still when it has waited next; then it goes on with a commit."""
        self.heard: Callable[[], None] = lambda: None
        """Called with every answer."""

    async def run(self) -> None:
        """Consume until cancelled, or fenced."""
        while not self.is_fenced:
            try:
                await self._session()
            except ConnectionError:
                await asyncio.sleep(0.2 + self.loop.random.random() * 0.3)

    def dial(self) -> None:
        self.wire = Wire(self.name, self.heard)
        self.loop.dial(self.address, self.wire)

    async def _session(self) -> None:
        self.dial()
        while not self.is_fenced:
            if self.generation < 0 and not await self._join():
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(self.session_ms / 3_000)
            if self.freeze_s:
                await self._freeze()
            else:
                await self._beat()
            if self.generation >= 0:
                await self._commit()

    async def call(self, version: int, request: Message) -> Any:
        assert self.wire is not None
        return await self.wire.call(version, request)

    async def _join(self) -> bool:
        joined = await self.call(9, self.join_request())
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = await self.call(9, self.join_request())
        if joined.error_code:
            self.heed(joined.error_code)
            return False
        plan = dealt(sorted(self.take_join(joined)), TOPIC, PARTITIONS, version=0)
        request = self.sync_request(plan)
        self.generation = -1  # until the assignment is there
        synced = await self.call(5, request)
        if synced.error_code:
            self.heed(synced.error_code)
            self.generation = -1
            return False
        self.generation = joined.generation_id
        self.assignment = partitions_in(synced.assignment)
        self.synced(self)
        return True

    async def _freeze(self) -> None:
        freeze_s, self.freeze_s = self.freeze_s, 0.0
        await asyncio.sleep(freeze_s)

    async def _beat(self) -> None:
        self.heed((await self.call(4, self.heartbeat_request())).error_code)

    async def _commit(self) -> None:
        """Every partition one further; what is acknowledged must be found again for ever."""
        offset = int(self.loop.time() * 1000)
        places = dict.fromkeys(((TOPIC, each) for each in self.assignment), offset)
        generation = self.generation
        is_behind = self.newest() > generation
        reply = await self.call(8, self.commit_request(places))
        accepted = {p.partition_index for p in reply.topics[0].partitions if not p.error_code}
        assert not (is_behind and accepted), (self.name, generation, "commits, and is behind")
        self.committed(self, generation, accepted)
        for each in reply.topics[0].partitions:
            if each.error_code == ErrorCode.NONE:
                self.acknowledged[each.partition_index] = offset
            self.heed(each.error_code)

    async def leave(self) -> None:
        """Go politely."""
        await self.call(5, self.leave_request())

    async def fetch(self) -> dict[int, int]:
        """What is committed for the group: partition to offset."""
        [group] = (await self.call(8, fetch_request(self.group_id))).groups
        if group.error_code:
            raise ConnectionError(ErrorCode(group.error_code).name)
        return {p.partition_index: p.committed_offset for t in group.topics for p in t.partitions}
