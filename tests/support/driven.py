"""One driver over any log, asked with messages.

driven = Driven(log)
await driven.load()
assert await driven.commit(7) == 0
"""

import asyncio
from collections.abc import Callable
from typing import Any

from groupkeeper.clock import Clock
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.member_bytes import Total
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.event_room import EventLimits
from groupkeeper.groups.late_offset_deleter import LateOffsetDeleter
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.partition_log import Author, LogOwner, PartitionLog
from groupkeeper.groups.reply_queue import ReplyQueue
from groupkeeper.groups.services import DriverServices, EventServices
from groupkeeper.observe.fact_readers import FactReaders
from groupkeeper.observe.metrics import Metrics
from groupkeeper.settings.table import Settings
from groupkeeper.turns import Turns
from tests.support.requests import Places, codes_of, commit_request, fetch_request
from tests.support.virtual_loop import VirtualExecutor, VirtualLoop


class NoNotes:
    """No topic was deleted while the partition was away."""

    def of(self, index: int) -> set[str]:
        return set()


class NoLog:
    """The log of events that nobody stores."""

    is_new = True

    async def claim(self, owner: LogOwner) -> int:
        raise AssertionError("only beside another log")

    def claim_empty(self, owner: LogOwner) -> int | None:
        raise AssertionError("only beside another log")

    async def claim_beside(self, owner: LogOwner, epoch: int) -> int:
        return epoch

    def claim_new(self, owner: LogOwner, epoch: int) -> None: ...

    async def read(self, take: Callable[[bytes], None]) -> None: ...

    def append_from(self, author: Author) -> None:
        raise AssertionError("the driver appends to its own log")

    async def release(self) -> None: ...


class Answer:
    """The reply token of a question."""

    def __init__(self) -> None:
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, response: Any) -> None:
        self.response.set_result(response)


class Driven:
    """A driver with services of its own, on the running loop."""

    def __init__(
        self,
        log: PartitionLog,
        config: GroupConfig | None = None,
        events: PartitionLog | None = None,
    ) -> None:
        """Without `events`, none are stored."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, turns = Clock(loop), Turns()
        notes: Any = NoNotes()
        self.metrics = Metrics()
        self.given_up: list[BaseException] = []
        services = DriverServices(
            clock=clock,
            loader=Loader(VirtualExecutor(loop)),
            metrics=self.metrics,
            config=config or GroupConfig(initial_rebalance_delay_ms=0),
            new_member_id=lambda prefix: f"{prefix}-1",
            readers=FactReaders(turns, self.metrics.counts),
            give_up=self.given_up.append,
            turns=turns,
            replies=ReplyQueue(turns),
            late_offset_deleter=LateOffsetDeleter(turns, clock, notes),
            partition_counts={},
            member_bytes=Total(),
            events=EventServices(
                clock=clock,
                metrics=self.metrics,
                give_up=self.given_up.append,
                enabled=events is not None,
                node_id=0,
                message_max_bytes=(config or GroupConfig()).message_max_bytes,
                personal=Personal("keep", ""),
                limits=EventLimits(Settings(), clock, lambda: -1),
            ),
        )
        self.driver = PartitionDriver(0, log, events or NoLog(), services)

    @property
    def state(self) -> str:
        return self.driver.snapshot().state

    async def load(self) -> None:
        self.driver.start_loading()
        await self.become("active")

    async def become(self, state: str) -> None:
        """Wait for a state; a minute at most."""
        async with asyncio.timeout(60):
            while self.state != state:  # noqa: ASYNC110  # a driver has no event to wait for
                await asyncio.sleep(0.001)

    def send(self, request: Any, version: int) -> "asyncio.Future[Any]":
        answer = Answer()
        self.driver.call(request, Caller(version), answer)
        return answer.response

    def send_commit(self, offset: int, group_id: str = "g") -> "asyncio.Future[Any]":
        return self.send(commit_request({("orders", 0): offset}, group_id), 8)

    async def commit(self, offset: int, group_id: str = "g") -> int:
        """The error code."""
        return code_of(await self.send_commit(offset, group_id))

    async def fetched(self, group_id: str = "g") -> Places:
        """All committed offsets of a group."""
        [group] = (await self.send(fetch_request(group_id), 8)).groups
        assert not group.error_code
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
        }


def code_of(commit: Any) -> int:
    """The error code in the answer to a commit of one partition."""
    [code] = codes_of(commit).values()
    return int(code)
