"""A client that is no member: sets offsets of groups without members, and deletes them again.

So logs get metadata strings, tombstones and keys that stay as they are for long. What it was
answered stays true, whatever crashes: it looks again and again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.simulation.consumer import TOPIC, Wire
from tests.support.consumer import RETRY
from tests.support.requests import commit_request, fetch_request, offset_delete_request
from tests.support.virtual_loop import Address, VirtualLoop

GROUPS = 9
GONE = {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
"""Of a deletion that is repeated because its first answer was lost."""

Offsets = dict[int, tuple[int, str]]
"""Partition to offset and metadata."""


@dataclass
class Clerk:
    """One client, as long as its task runs."""

    loop: VirtualLoop
    address: Address
    heard: Callable[[], None]
    promised: dict[str, Offsets] = field(default_factory=dict)
    looks: int = 0
    deletions: int = 0
    _wire: Wire | None = None

    async def run(self) -> None:
        """Work until cancelled: what was begun is repeated until it is answered."""
        while True:
            await asyncio.sleep(self.loop.random.uniform(1.0, 6.0))
            group_id = f"clerk-{self.loop.random.randrange(GROUPS)}"
            work = self.loop.random.choice(
                [self._set, self._set, self._set, self._clear, self._drop]
            )
            await self._until_done(work, group_id)
            await self._until_done(self._look, f"clerk-{self.loop.random.randrange(GROUPS)}")

    async def _until_done(self, work: Callable[..., Any], group_id: str) -> None:
        chance = self.loop.random.randrange(12)
        while True:
            try:
                if await work(group_id, chance):
                    return
            except ConnectionError:
                self._wire = None
            await asyncio.sleep(0.3)

    async def call(self, version: int, request: Message) -> Any:
        if self._wire is None or self._wire.transport is None:
            self._wire = Wire("clerk", self.heard)
            self.loop.dial(self.address, self._wire)
        return await self._wire.call(version, request)

    async def _set(self, group_id: str, partition: int) -> bool:
        offset, note = int(self.loop.time() * 1000), f"by hand at {self.loop.time():.0f} s"
        request = commit_request({(TOPIC, partition): offset}, group_id)
        request.topics[0].partitions[0].committed_metadata = note
        reply = await self.call(8, request)
        if not _done(reply.topics[0].partitions[0].error_code, {ErrorCode.NONE}):
            return False
        self.promised.setdefault(group_id, {})[partition] = offset, note
        return True

    async def _clear(self, group_id: str, partition: int) -> bool:
        reply = await self.call(0, offset_delete_request([(TOPIC, partition)], group_id))
        if not _done(reply.error_code, GONE):
            return False
        self.deletions += 1
        offsets = self.promised.get(group_id, {})
        offsets.pop(partition, None)
        return True

    async def _drop(self, group_id: str, _: int) -> bool:
        reply = await self.call(2, DeleteGroupsRequest(groups_names=[group_id]))
        if not _done(reply.results[0].error_code, GONE):
            return False
        self.deletions += 1
        self.promised.pop(group_id, None)
        return True

    async def _look(self, group_id: str, _: int) -> bool:
        [group] = (await self.call(8, fetch_request(group_id))).groups
        if not _done(group.error_code, {ErrorCode.NONE}):
            return False
        found = {
            each.partition_index: (each.committed_offset, each.metadata)
            for topic in group.topics
            for each in topic.partitions
        }
        assert found == self.promised.get(group_id, {}), (group_id, found)
        self.looks += 1
        return True


def _done(error: int, good: set[ErrorCode]) -> bool:
    assert error in good | RETRY, ErrorCode(error)
    return error in good
