"""Fetch: reply at once, when enough bytes were appended, or after the client's maximum wait.

Records are read in fetch_reader.py, on threads if they are not in the page cache; most requests are
answered in the same call. A waiting Fetch uses no CPU: appends count their bytes for it, and a
timer of the event loop ends it. Requests that have waited enough are answered in turns (`turns`),
in the order in which they began to wait. Sessions (KIP-227) are declined with session id 0, so
every Fetch names all its partitions. Source: Kafka's `DelayedFetch` and `FetchManager`.
"""

import asyncio
from enum import Enum, auto
from functools import partial
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from groupkeeper.topics.fetch_reader import BY_ID_SINCE, NOTHING, Found, ReadResult, Reads
from groupkeeper.topics.file_jobs import FileJob
from groupkeeper.topics.limits import WATCHED_MOST, OverLimitError
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import TURN_S, Slices, Work

LEADERS_SINCE: Final = 16
"""From this version on, an answer names the leader when the client sent the request to another node
(KIP-951)."""

_ANOTHER_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_FULL_FETCH: Final = (0, -1)
"""Session epochs of requests that name all partitions: 0 opens a session, -1 needs none."""

MAX_WAIT_MS: Final = 5 * 60_000
"""Longest wait, whatever the request says: a waiting Fetch goes on when its client has
disconnected. Clients wait for half a second by default, and at most for their request timeout."""


class FetchHandler:
    """Answers Fetch."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._reader = topics.reader
        self._partitions = topics.partitions
        self._topics_by_id = topics.catalog.by_id
        self._node = node
        self._response_tasks = topics.response_tasks
        self.turns = topics.response_tasks.turns
        self._failed = topics.failed
        self._closing = False
        self._ended = asyncio.Event()
        self._watched = 0
        self.waiting: dict[WaitingFetch, None] = topics.waiting_fetches
        topics.before_close.append(self.close)

    def handle(
        self, request: FetchRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Return the response, or None if it has to wait or logs have to be opened first."""
        if request.session_epoch not in _FULL_FETCH:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if caller.api_version >= BY_ID_SINCE:
            yield from self._fill_in_names(request)
        waiting = WaitingFetch(self, request, caller, reply_to)
        try:
            unopened, reads = yield from self._reader.plan(request, waiting.watch)
            job = NOTHING if unopened else (yield from self._reader.start(reads))
            if not unopened and job.done:
                return (yield from self._answer_or_wait(waiting, reads, job.result()))
        except BaseException:  # the client disconnected, or a bug: stop watching in any case
            self.turns.start(waiting.unwatch())
            raise
        later = self._read_later(waiting, unopened, reads, job)
        self._response_tasks.start(later, reply_to, _failed_response)
        return None

    def _fill_in_names(self, request: FetchRequest) -> Slices[None]:
        """Set the names of topics that are given by id; an unknown topic keeps none."""

        def fill_in(wanted: FetchTopic) -> None:
            topic = self._topics_by_id.get(wanted.topic_id)
            wanted.topic = topic.name if topic is not None else ""

        yield from each(request.topics, fill_in)

    async def _read_later(
        self,
        waiting: "WaitingFetch",
        unopened: list[TopicPartition],
        reads: Reads,
        job: FileJob[Found],
    ) -> Response | None:
        run = self.turns.run
        try:
            if unopened:
                await run(waiting.unwatch())
                await self._partitions.prepare(unopened)
                _, reads = await run(self._reader.plan(waiting.request, waiting.watch))
                job = await run(self._reader.start(reads))
            return await run(self._answer_or_wait(waiting, reads, await job.wait()))
        except BaseException:
            self.turns.start(waiting.unwatch())
            raise

    async def close(self) -> None:
        """Answer all waiting requests with the records present; later requests do not wait."""
        self._closing = True
        for waiting in self.waiting:
            waiting.changed()
        while self.waiting:
            self._ended.clear()
            await self._ended.wait()

    def _answer_or_wait(
        self, waiting: "WaitingFetch", reads: Reads, found: Found
    ) -> Slices[FetchResponse | None]:
        request, caller = waiting.request, waiting.caller
        result = yield from self._reader.answer(request, caller.api_version, reads, found)
        missing = min(request.min_bytes, result.budget) - result.size
        if waiting.may_wait and missing > 0 and not result.failed and self._may_wait(result):
            self.waiting[waiting] = None
            waiting.wait(missing, result.partitions)
            return None
        yield from waiting.unwatch()
        return (yield from self._answer(result, caller))

    def _answer(self, result: ReadResult, caller: Caller) -> Slices[FetchResponse]:
        """Make the response, with the leader of partitions where the client assumed another."""
        response = result.response
        if not result.failed or caller.api_version < LEADERS_SINCE:
            return response
        pace = Pace()
        for topic in response.responses:
            for data in topic.partitions:
                partition = self._partitions.find(topic.topic, data.partition_index)
                if data.error_code in _ANOTHER_LEADER and partition is not None:
                    data.current_leader = LeaderIdAndEpoch(
                        leader_id=self._node.node_id, leader_epoch=partition.leader_epoch
                    )
                    host, port = self._node.address(caller.peer.listener)
                    endpoint = NodeEndpoint(node_id=self._node.node_id, host=host, port=port)
                    response.node_endpoints = [endpoint]
                if pace.spent():
                    yield
        return response

    def _may_wait(self, result: ReadResult) -> bool:
        if self._closing:
            return False
        if self._watched + result.partitions > WATCHED_MOST:
            limit = f"waiting Fetch requests name more than {WATCHED_MOST} partitions"
            self._failed("fetch", OverLimitError(limit))
            return False
        self._watched += result.partitions
        return True

    def finish(self, waiting: "WaitingFetch") -> Slices[FetchResponse | None]:
        """Stop watching, and read once more. None: `waiting` is answered later."""
        yield from waiting.unwatch()
        try:
            _, reads = yield from self._reader.plan(waiting.request)
            job = yield from self._reader.start(reads)
            if job.done:
                return (yield from self._finished(waiting, reads, job.result()))
        except Exception as error:  # noqa: BLE001  # a request ends here, and must be answered
            self._failed("request", error)
            return _failed_response()
        job.when_done(partial(waiting.read, reads, job))
        return None

    def finish_read(
        self, waiting: "WaitingFetch", reads: Reads, job: FileJob[Found]
    ) -> Slices[FetchResponse]:
        """Do the rest of `finish`, when the job is done."""
        try:
            return (yield from self._finished(waiting, reads, job.result()))
        except Exception as error:  # noqa: BLE001  # as above
            self._failed("request", error)
            return _failed_response()

    def _finished(
        self, waiting: "WaitingFetch", reads: Reads, found: Found
    ) -> Slices[FetchResponse]:
        caller = waiting.caller
        result = yield from self._reader.answer(waiting.request, caller.api_version, reads, found)
        return (yield from self._answer(result, caller))

    def answered(self, waiting: "WaitingFetch") -> None:
        """Remove a request that was answered."""
        del self.waiting[waiting]
        self._watched -= waiting.partitions
        self._ended.set()


class _State(Enum):
    READING = auto()
    """Being read, while appends are counted; may have to wait afterwards."""
    WAITING = auto()
    WOKEN = auto()
    """Has waited, or need not wait."""


class WaitingFetch:
    """A Fetch that waits for appends; answered exactly once."""

    __slots__ = (
        "_handler",
        "_missing",
        "_reply_to",
        "_state",
        "_timer",
        "_watched",
        "caller",
        "partitions",
        "request",
    )

    def __init__(
        self, handler: FetchHandler, request: FetchRequest, caller: Caller, reply_to: ReplyTo
    ) -> None:
        self.request = request
        self.caller = caller
        self.partitions = 0
        """Number of partitions in the request."""
        self._handler = handler
        self._reply_to = reply_to
        self._missing = 0
        self._watched: list[TopicPartition] = []
        self._timer: asyncio.TimerHandle | None = None
        self._state = _State.READING

    @property
    def may_wait(self) -> bool:
        request = self.request
        return request.max_wait_ms > 0 and request.min_bytes > 0 and bool(request.topics)

    def watch(self, partition: TopicPartition) -> None:
        """Count the bytes appended from now on, if this request may wait for them."""
        if not self.may_wait:
            return
        self._watched.append(partition)
        partition.watch(self)

    def unwatch(self) -> Slices[None]:
        """Stop counting the appends of all partitions."""
        pace = Pace()
        while self._watched:
            self._watched.pop().watchers.pop(self, None)
            if pace.spent():
                yield

    def wait(self, missing: int, partitions: int) -> None:
        """Wait for `missing` bytes, less the bytes appended while the partitions were read."""
        self.partitions = partitions
        self._missing += missing
        if self._state is _State.WOKEN or self._missing <= 0:
            self._wake()
            return
        self._state = _State.WAITING
        wait_s = min(self.request.max_wait_ms, MAX_WAIT_MS) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.changed)

    def grew(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0 and self._state is _State.WAITING:
            self._wake()

    def changed(self) -> None:
        """End the wait: the topic was deleted, the server closes, or the time is up."""
        if self._state is _State.WAITING:
            self._wake()
        self._state = _State.WOKEN

    def _wake(self) -> None:
        self._state = _State.WOKEN
        self._handler.turns.first(self._turn)

    def _turn(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._continue(Work(self._handler.finish(self)))

    def read(self, reads: Reads, job: FileJob[Found]) -> None:
        """Take the result of the job that `FetchHandler.finish` has begun."""
        work = Work(self._handler.finish_read(self, reads, job))
        self._handler.turns.first(lambda: self._continue(work))

    def _continue(self, work: Work[FetchResponse] | Work[FetchResponse | None]) -> None:
        loop = asyncio.get_running_loop()
        if work.run(loop.time, loop.time() + TURN_S):
            if work.result is not None:
                self._handler.answered(self)
                self._reply_to.answer(work.result)
        else:
            self._handler.turns.again(partial(self._continue, work))


def _failed_response() -> FetchResponse:
    return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
