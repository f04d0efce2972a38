"""A consumer as clients are: joins, syncs, beats, commits, rejoins when told, reconnects when cut.

It speaks the wire protocol through the real codec. What it was told is kept, so that a test can
hold the server to it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.virtual_loop import Address, VirtualLoop
from tests.support.wire import Exchange, Frames

TOPIC, PARTITIONS = "orders", 12
RETRY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, *RETRY}
FORGET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


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


@dataclass
class Consumer:
    """One member, as long as its task runs."""

    loop: VirtualLoop
    address: Address
    name: str
    instance_id: str | None = None
    group_id: str = "billing"
    partitions: int = PARTITIONS
    """Of the topic."""
    session_ms: int = 10_000
    member_id: str = ""
    generation: int = -1
    assignment: list[int] = field(default_factory=list)
    joins: int = 0
    fenced: bool = False
    acknowledged: dict[int, int] = field(default_factory=dict)
    wire: Wire | None = None
    synced: Callable[["Consumer"], None] = lambda consumer: None
    """Told about every assignment."""
    heard: Callable[[], None] = lambda: None
    """Told about every answer."""

    async def run(self) -> None:
        """Consume until cancelled, or fenced."""
        while not self.fenced:
            try:
                await self._session()
            except ConnectionError:
                await asyncio.sleep(0.2 + self.loop.random.random() * 0.3)

    async def _session(self) -> None:
        self.wire = Wire(self.name, self.heard)
        self.loop.dial(self.address, self.wire)
        while not self.fenced:
            if self.generation < 0 and not await self._join():
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(self.session_ms / 3_000)
            self._heed((await self._heartbeat()).error_code)
            if self.generation >= 0:
                await self._commit()

    async def call(self, version: int, request: Message) -> Any:
        assert self.wire is not None
        return await self.wire.call(version, request)

    def _heed(self, error: int) -> None:
        if error in FORGET:
            self.generation, self.member_id = -1, ""
        elif error in REJOIN - RETRY:
            self.generation = -1
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.fenced = True
        else:
            assert error in {ErrorCode.NONE, *RETRY}, ErrorCode(error)

    async def _join(self) -> bool:
        self.joins += 1
        metadata = encode_subscription(Subscription(version=1, topics=[TOPIC]))
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self.call(9, request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = joined.member_id
            joined = await self.call(9, request)
        if joined.error_code:
            if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.fenced = joined.error_code == ErrorCode.FENCED_INSTANCE_ID
            return False
        self.member_id = joined.member_id
        return await self._sync(joined)

    async def _sync(self, joined: Any) -> bool:
        plan = []
        if joined.members and not joined.skip_assignment:
            ids = sorted(m.member_id for m in joined.members)
            for at, member_id in enumerate(ids):
                mine = list(range(at, self.partitions, len(ids)))
                share = Assignment(
                    assigned_partitions=[TopicPartition(topic=TOPIC, partitions=mine)]
                )
                plan.append(
                    SyncGroupRequestAssignment(
                        member_id=member_id, assignment=encode_assignment(share)
                    )
                )
        synced = await self.call(
            5,
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=plan,
            ),
        )
        if synced.error_code:
            self._heed(synced.error_code)
            self.generation = -1
            return False
        self.generation = joined.generation_id
        share = decode_assignment(synced.assignment)
        self.assignment = [p for each in share.assigned_partitions for p in each.partitions]
        self.synced(self)
        return True

    def _heartbeat(self) -> Any:
        return self.call(
            4,
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            ),
        )

    async def _commit(self) -> None:
        """Every partition one further; what is acknowledged must be found again for ever."""
        offset = int(self.loop.time() * 1000)
        partitions = [
            OffsetCommitRequestPartition(partition_index=p, committed_offset=offset)
            for p in self.assignment
        ]
        reply = await self.call(
            8,
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
            ),
        )
        for each in reply.topics[0].partitions:
            if each.error_code == ErrorCode.NONE:
                self.acknowledged[each.partition_index] = offset
            self._heed(each.error_code)

    async def leave(self) -> None:
        """Go politely."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        await self.call(5, LeaveGroupRequest(group_id=self.group_id, members=[identity]))

    async def fetch(self) -> dict[int, int]:
        """What is committed for the group: partition to offset."""
        groups = [OffsetFetchRequestGroup(group_id=self.group_id, topics=None)]
        reply = await self.call(8, OffsetFetchRequest(groups=groups))
        group = reply.groups[0]
        if group.error_code:
            raise ConnectionError(ErrorCode(group.error_code).name)
        return {p.partition_index: p.committed_offset for t in group.topics for p in t.partitions}
