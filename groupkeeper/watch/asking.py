"""Asks the coordinators of an observed cluster what its log cannot say: which groups are in a
rebalance right now, and who their members are.

Each node is asked by a task of its own, one request at a time; all tasks together send at most
`ASKS_PER_S` requests a second, however many groups there are. ListGroups with a filter of states
names all groups of a node that are in a rebalance; DescribeGroups lists the members of groups that
are, or that have just written a record, several in a request, the one that changed last first.

The coordinator of a group is the leader of its partition of `__consumer_offsets`, which is known.
A group without an answer is asked about again after growing pauses, at the leader by then.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groupkeeper.backoff import Backoff
from groupkeeper.client import CallFailed, Client
from groupkeeper.clock import Clock
from groupkeeper.history.asked import Asked
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.topics.log_positions import LogName
from groupkeeper.topics.slices import Pace
from groupkeeper.watch.offsets import TopicOffsets
from groupkeeper.watch.rate import Requests
from groupkeeper.watch.retries import TRIES_MOST, GroupRetries
from groupkeeper.watch.sightings import REBALANCING, Description, GroupListing, Sightings
from groupkeeper.watch.views import WatchedGroups, WatchedPartition

ASKS_PER_S: Final = 4.0
"""Maximum number of these requests per second, to all nodes together."""
LIST_S: Final = 1.0
"""Interval at which the groups of a node are listed."""
LIST_AGAIN_S: Final = 600.0
"""The same of a node that cannot list those in a rebalance: its broker may be upgraded."""
IDLE_S: Final = 0.1
"""Interval at which a node without anything to ask is looked at again."""
NODES_S: Final = 5.0
"""Interval at which nodes that lead partitions are looked for."""
QUEUE_MOST: Final = 10_000
"""Maximum number of groups of one node that wait to be described; beyond, the one that changed
first is dropped."""
GROUPS_AT_ONCE: Final = 20
"""Maximum number of groups in a request."""
MEMBERS_AT_ONCE: Final = 2_000
"""Maximum number of members of these groups together, by their last records. A larger group is not
described."""
GROUPS_IN_A_SLICE: Final = 100
"""Groups of a listing that are shown in one iteration of the event loop."""
DENIED_MS: Final = 600_000
"""Time for which a group is not asked about again after its description was denied."""
OMITTED_MOST: Final = 10_000
"""Maximum number of such groups to remember; beyond, all are forgotten."""
UNKNOWN_MS: Final = 60_000
"""The same time for a group that its coordinator cannot describe: it was deleted, or is a consumer,
share or streams group, which DescribeGroups does not know."""
DEAD: Final = "Dead"
"""State of such a group up to version 5."""
PAUSE_FIRST_S, PAUSE_MOST_S = 0.5, 30.0
"""First and longest pause after a failed request to a node."""

_NOT_ASKED: Final = "groups cannot be asked about"
_NO_FILTER: Final = "its ListGroups has no filter of states, which Kafka has since version 2.6"
_STATES: Final = {each: each for each in REBALANCING}
"""One string for all groups of a listing in the same state."""
_DENIED: Final = (
    "the user has no right to describe them: grant DESCRIBE on groups, or start with --no-ask; "
    "what their records show is inferred as before"
)


class Asker:
    """Asks all coordinators. `leaders` returns the present leaders of the topic's partitions,
    `idle` see `LogEnds.idle`.
    """

    def __init__(
        self,
        client: Client,
        groups: WatchedGroups,
        leaders: Callable[[], Mapping[int, int]],
        clock: Clock,
        idle: Callable[[TopicOffsets], Mapping[LogName, int]] = lambda offsets: {},
    ) -> None:
        self.requests = Requests(ASKS_PER_S, clock.seconds)
        self.sightings = Sightings()
        self._client, self._groups, self._leaders = client, groups, leaders
        self._clock, self._idle = clock, idle
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._queues: dict[int, dict[str, None]] = {}
        """Groups to describe by node, the one that changed last at the end."""
        self._omitted: dict[str, int] = {}
        """Group -> time until which it is not asked about."""
        self._retries = GroupRetries()
        self._cannot_list: set[int] = set()
        """Nodes whose ListGroups had no filter at the last try."""

    async def run(self) -> None:
        """Ask until cancelled. Raises the errors of tasks."""
        try:
            while True:
                nodes = {*self._leaders().values()}
                for node in nodes - self._tasks.keys():
                    self._tasks[node] = asyncio.create_task(self._ask(node))
                for node in self._tasks.keys() - nodes:
                    task = self._tasks.pop(node)
                    task.cancel()
                    await asyncio.wait((task,))
                    if not task.cancelled():
                        task.result()
                    self._cannot_list.discard(node)
                    await self._enqueue_all(self._queues.pop(node, {}))
                for task in self._tasks.values():
                    if task.done():
                        task.result()
                await asyncio.sleep(NODES_S)
        finally:
            tasks = [*self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- what is told ----------------------------------------------------------------------------

    async def began(self, partition: WatchedPartition) -> None:
        """Note that a partition was read to its end: its groups are described in time, behind those
        that change, because listings count as evidence only for groups that were described.
        """
        await self._enqueue_all(partition.group_ids())

    def changed(self, group_id: str) -> None:
        """Note that a group has a new record, or is in a rebalance: it is described soon."""
        self._retries.drop(group_id)
        self._enqueue(group_id)

    def received(self, partition: int, record_ms: int, now_ms: int) -> None:
        """Note that a record of `record_ms` by the clock of a partition's leader, its newest one,
        was received as soon as it was written, at `now_ms` (monotonic).
        """
        node = self._leaders().get(partition)
        if node is not None:
            self.sightings.received(node, record_ms, now_ms)

    def asked(self, group_id: str) -> Asked:
        """Return what is known of a group. May be called by another thread."""
        partition = self._groups.of(group_id)
        index = partition.index
        node = self._leaders().get(index)
        sightings = self.sightings.of(group_id, index, node)
        ahead_ms = self.sightings.ahead_ms(node)
        offsets = partition.offsets.get(group_id)
        if offsets is None or ahead_ms is None:
            return Asked(sightings)
        return Asked(sightings, {each: ms - ahead_ms for each, ms in self._idle(offsets).items()})

    # -- the queues ------------------------------------------------------------------------------

    async def _enqueue_all(self, group_ids: Iterable[str]) -> None:
        for number, group_id in enumerate(group_ids, 1):
            self._enqueue(group_id)
            if not number % GROUPS_IN_A_SLICE:
                await asyncio.sleep(0)

    def _enqueue(self, group_id: str) -> None:
        """Let a group be described by the present leader of its partition."""
        until_ms = self._omitted.get(group_id)
        if until_ms is not None and self._clock.now() < until_ms:
            return
        if self._size_of(group_id) > MEMBERS_AT_ONCE:
            self._retries.drop(group_id)
            self.requests.drop("members of a group to describe", MEMBERS_AT_ONCE, group=group_id)
            return
        node = self._node_of(group_id)
        if node is None:
            self._retry((group_id,))
            return
        queue = self._queues.setdefault(node, {})
        queue.pop(group_id, None)
        queue[group_id] = None
        if len(queue) > QUEUE_MOST:
            oldest = next(iter(queue))
            del queue[oldest]
            self._retries.drop(oldest)
            self.requests.drop("groups to describe", QUEUE_MOST, group=oldest)

    def _retry(self, group_ids: Iterable[str]) -> None:
        """Describe groups again after a pause: their coordinators gave no answer about them."""
        now_s = self._clock.seconds()
        left = [each for each in group_ids if not self._retries.failed(each, now_s)]
        if left:
            limit = "requests about a group without an answer", TRIES_MOST + 1
            self.requests.drop(*limit, len(left), groups=", ".join(left[:3]))

    def _node_of(self, group_id: str) -> int | None:
        return self._leaders().get(self._groups.of(group_id).index)

    def _size_of(self, group_id: str) -> int:
        group = self._groups.of(group_id).peek(group_id)
        return 0 if group is None else len(group.members)

    # -- one node --------------------------------------------------------------------------------

    async def _ask(self, node: int) -> None:
        backoff, list_s = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S), 0.0
        while True:
            for group_id in self._retries.due(self._clock.seconds()):
                self._enqueue(group_id)
            is_due = self._clock.seconds() >= list_s
            if not is_due and not self._queues.get(node):
                await asyncio.sleep(IDLE_S)
                continue
            await self.requests.turn()
            try:
                if is_due:
                    list_s = self._clock.seconds() + LIST_S
                    if not await self._list(node):
                        list_s = self._clock.seconds() + LIST_AGAIN_S
                else:
                    await self._describe(node, self._next(node))
                backoff.reset()
            except CallFailed as failure:
                self.requests.failed(_NOT_ASKED, str(failure))
                await asyncio.sleep(backoff.failed())

    async def _list(self, node: int) -> bool:
        """List the groups of a node that are in a rebalance. Returns False if it cannot. Raises
        CallFailed for other failures.
        """
        leaders, sent_ms = self._leaders(), self._clock.now()
        request = ListGroupsRequest(states_filter=[*REBALANCING])
        try:
            answer = await self._client.call_in_slices(request, node=node)
        except CallFailed as failure:
            if failure.error is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            self._note_old(node)
            return False
        self._cannot_list.discard(node)
        at_ms = self._clock.now()
        found = await _rebalancing_in(answer.groups)
        listing = GroupListing(sent_ms, at_ms, found, leaders)
        self.sightings.listed(node, listing)
        await self._end_phases(node, listing)
        is_idle = not self._queues.get(node)
        for number, group_id in enumerate(found, 1):
            self._see(group_id, node, listing, is_idle=is_idle)
            if not number % GROUPS_IN_A_SLICE:
                await asyncio.sleep(0)
        return True

    def _note_old(self, node: int) -> None:
        """Count that a node cannot list its groups, and tell it if that is new."""
        if node in self._cannot_list:
            self.requests.failures += 1
            return
        self._cannot_list.add(node)
        self.requests.failed("rebalances under way are not seen", _NO_FILTER, node=node)

    async def _end_phases(self, node: int, listing: GroupListing) -> None:
        """Show no rebalance any more of groups that a listing of their coordinator does not name,
        whichever node named them before.
        """
        led = [each for each in self._groups if listing.leaders.get(each.index) == node]
        seen = [(each, group_id) for each in led for group_id in each.phases.group_ids()]
        for number, (partition, group_id) in enumerate(seen, 1):
            if group_id not in listing.rebalancing:
                partition.phases.over(group_id)
            if not number % GROUPS_IN_A_SLICE:
                await asyncio.sleep(0)

    def _see(self, group_id: str, node: int, listing: GroupListing, *, is_idle: bool) -> None:
        """Show a rebalance under way. Its members are asked for when it is new, and again while
        there is nothing else to ask.
        """
        partition = self._groups.of(group_id)
        group = partition.peek(group_id)
        if group is None or listing.leaders.get(partition.index) != node:
            return
        if partition.phases.see(group, listing.rebalancing[group_id], listing.sent_ms):
            self.changed(group_id)
        elif is_idle and group_id not in self._retries:
            self._enqueue(group_id)

    def _next(self, node: int) -> list[str]:
        """Take the groups to describe next from the queue of a node."""
        queue, some, members = self._queues[node], list[str](), 0
        while queue and len(some) < GROUPS_AT_ONCE:
            group_id = next(reversed(queue))
            members += self._size_of(group_id)
            if some and members > MEMBERS_AT_ONCE:
                break
            del queue[group_id]
            some.append(group_id)
        return some

    async def _describe(self, node: int, group_ids: list[str]) -> None:
        left = dict.fromkeys(group_ids)
        try:
            sent_ms = self._clock.now()
            request = DescribeGroupsRequest(groups=group_ids)
            answer = await self._client.call_in_slices(request, node=node)
            at_ms = self._clock.now()
            denied, unknown, failed = list[str](), list[str](), list[str]()
            for row in await _groups_in(answer.groups):
                if row.error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    denied.append(row.group_id)
                elif row.error == ErrorCode.GROUP_ID_NOT_FOUND or row.state == DEAD:
                    unknown.append(row.group_id)
                elif row.error:  # it has moved, or is loading
                    failed.append(f"{row.group_id}: {ErrorCode(row.error).name}")
                    continue
                else:
                    self._described(row, sent_ms, at_ms)
                self._retries.drop(row.group_id)
                left.pop(row.group_id, None)
        finally:  # also if the node is not asked any more
            self._retry(left)
        self._omit(unknown, UNKNOWN_MS)
        self._omit(denied, DENIED_MS)
        if failed:
            self.requests.failed(_NOT_ASKED, failed[0], len(failed))
        if denied:
            shown = ", ".join(denied[:3])
            self.requests.failed(
                "groups may not be asked about", _DENIED, len(denied), groups=shown
            )

    def _described(self, row: "_Described", sent_ms: int, at_ms: int) -> None:
        description = Description(sent_ms, at_ms, row.state, row.members)
        self.sightings.described(row.group_id, description)
        self._groups.of(row.group_id).phases.describe(row.group_id, row.members)

    def _omit(self, group_ids: Sequence[str], for_ms: int) -> None:
        """Ask nothing about some groups for a while."""
        if len(self._omitted) + len(group_ids) > OMITTED_MOST:
            self._omitted.clear()
        for group_id in group_ids:
            self._omitted[group_id] = self._clock.now() + for_ms
            self.sightings.hidden(group_id)


class _Described(NamedTuple):
    """The part of a row of DescribeGroups that is evidence."""

    group_id: str
    error: int
    state: str
    members: frozenset[str]


# Any: rows of ListGroups.
async def _rebalancing_in(rows: list[Any]) -> dict[str, str]:
    """Return the states of groups in a rebalance. Reads, and frees, the rows in slices."""
    found, pace = dict[str, str](), Pace()
    rows.reverse()
    while rows:
        row = rows.pop()
        if (state := _STATES.get(row.group_state)) is not None:
            found[row.group_id] = state
        if pace.spent():
            await asyncio.sleep(0)
    return found


# Any: rows of DescribeGroups.
async def _groups_in(rows: list[Any]) -> list[_Described]:
    """Read, and free, rows and their members in slices. They may be of more members than was
    expected.
    """
    found, pace = list[_Described](), Pace()
    rows.reverse()
    while rows:
        row, members = rows.pop(), set[str]()
        while row.members:
            members.add(row.members.pop().member_id)
            if pace.spent():
                await asyncio.sleep(0)
        found.append(_Described(row.group_id, row.error_code, row.group_state, frozenset(members)))
    return found
