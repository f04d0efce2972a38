"""A group that behaves, in the midst of the noise: nothing that others send may disturb it.

It is alone in its group, beats, commits and reads back. After a crash it is still a member of the
same generation, and what was acknowledged is there.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from tests.fuzz.life import Finding, Life
from tests.simulation.cluster import ADDRESS
from tests.simulation.consumer import Wire
from tests.support.consumer import RETRY, Membership, subscription
from tests.support.requests import codes_of, create_request, fetch_request

GROUP, TOPIC = "bystander", "quiet"
SESSION_MS = 1_800_000
PATIENCE_S = 120.0


class Bystander(Membership):
    """The member, and what it was promised."""

    def __init__(self, life: Life) -> None:
        super().__init__(GROUP, session_ms=SESSION_MS, metadata=subscription(TOPIC, version=0))
        self._life = life
        self._wire: Wire | None = None
        self._sent = 0
        self._acknowledged = -1
        life.ending.append(self._disconnected)

    def _disconnected(self) -> None:
        self._wire = None

    def arrive(self) -> None:
        """Make the topic, join, sync."""
        self.make_topics([TOPIC])
        self.take_join(self.call(3, self.join_request()))
        synced = self.call(5, self.sync_request({self.member_id: b"mine"}))
        self._expect(synced.error_code, "sync")

    def make_topics(self, names: Sequence[str]) -> None:
        self.call(4, create_request(*names, partitions=2))

    def check(self) -> None:
        """Beat, commit one further, read it back. On a broken disk it may be told to wait."""
        self._sent += 1
        commit = self.commit_request({(TOPIC, 0): self._sent})
        asked = fetch_request(GROUP, topics={TOPIC: [0]})
        self.beat()
        if self._works(8, commit, "commit"):
            self._acknowledged = self._sent
        if self._works(8, asked, "fetch"):
            [group] = self.call(8, asked).groups
            found = group.topics[0].partitions[0].committed_offset if group.topics else -1
            if not group.error_code and not self._acknowledged <= found <= self._sent:
                raise Finding(f"bystander: committed {self._acknowledged}, found {found}")

    def beat(self) -> None:
        """Only say that it is alive."""
        self._works(4, self.heartbeat_request(), "heartbeat")

    def _works(self, version: int, request: Message, what: str) -> bool:
        """True when it was answered well; False when the disk is a reason to wait."""
        code = self._patiently(version, request)
        if code in RETRY and self._life.is_broken:
            return False
        self._expect(code, what)
        return True

    # -- the wire --------------------------------------------------------------------------------

    def call(self, version: int, request: Message) -> Any:
        """The answer; where the connection broke it is made anew. Also for who cleans up."""
        for _ in range(20):
            if self._life.server.failed.done():
                self._life.kill()
            if self._wire is None or self._wire.transport is None:
                self._wire = Wire("bystander")
                self._life.loop.dial(ADDRESS, self._wire)
            try:
                return self._life.run(self._answered(version, request))
            except ConnectionError:
                self._life.advance(0.1)
            except TimeoutError:
                if not self._life.server.failed.done():
                    raise Finding(f"bystander: no answer to {type(request).__name__}") from None
        raise Finding(f"bystander: its connection breaks again and again, {type(request).__name__}")

    async def _answered(self, version: int, request: Message) -> Any:
        assert self._wire is not None
        async with asyncio.timeout(PATIENCE_S):
            return await self._wire.call(version, request)

    def _patiently(self, version: int, request: Message) -> int:
        """The error code, once the partition is loaded and the disk takes what is written."""
        life, began = self._life, self._life.loop.time()
        while True:
            was_active = self._is_active()
            response = self.call(version, request)
            code = _code_of(response)
            excused = life.faults or not (was_active and self._is_active())
            waited = life.loop.time() - began
            if code not in RETRY or not excused or life.is_broken or waited > PATIENCE_S:
                return code
            life.advance(0.05)

    def _is_active(self) -> bool:
        return self._life.server.group_partitions.of(GROUP).snapshot().state == "active"

    def _expect(self, code: int, what: str) -> None:
        if code:
            raise Finding(f"bystander: {what} was answered {ErrorCode(code).name}")


def _code_of(response: Any) -> int:
    if hasattr(response, "error_code"):  # OffsetFetch has one, but up to version 7 only
        if getattr(response, "groups", None):
            return int(response.groups[0].error_code)
        return int(response.error_code)
    return max(codes_of(response).values())
