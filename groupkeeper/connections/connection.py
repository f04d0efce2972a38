"""One client's connection: cuts bytes into frames, and answers requests in order.

An asyncio protocol with synchronous dispatch: requests that can be answered at once are decoded,
decided, encoded and written in the same call, without a task or a future. One request (of Produce,
a run) is in progress at a time, as on a Kafka broker: a parked JoinGroup blocks later requests of
the client, which keeps the order and limits what a client can send. Long work is done in turns with
other connections (`turns.py`): many requests that came together, and long requests and answers in
slices. If a client disconnects, its group does not change, and earlier requests are still handled:
a LeaveGroup after a parked JoinGroup removes the member. This module does not interpret requests:
the routes are passed in as a table.

Source: Kafka's SocketServer.Processor and KafkaChannel, which is muted while a request is handled.
"""

import sys
from struct import Struct
from types import GeneratorType
from typing import Any

from groupkeeper.connections.answer_errors import count_errors
from groupkeeper.connections.budget import OverBudgetError, SlicedRoom
from groupkeeper.connections.call import (
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    PRODUCE,
    Call,
    ConnectionServices,
    api_name,
    decode,
    encode,
    encode_in_slices,
    handle_in_slices,
    has_many_members,
    is_served,
    not_served,
)
from groupkeeper.connections.produce_run import SLICED_PRODUCE_BYTES, ProduceRequests, is_produce
from groupkeeper.connections.steady import SteadyBeat, steady_beat
from groupkeeper.connections.steady_commits import commits_of
from groupkeeper.connections.stream import (
    CLOSED,
    QUEUED,
    READING,
    SERVING,
    WAITING,
    WORKING,
    ClientStream,
)
from groupkeeper.connections.too_long import TooLong
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import NO_REPLY, Handler, Response
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.framing import RequestHeader, read_request_header
from groupkeeper.protocol.mapped import free
from groupkeeper.turns import TURN_S, Work

SLICED_REQUEST_BYTES = 8 * 1024
"""Longer requests are decoded, handled and answered in slices."""
BEATS = 1_000
"""Maximum repeated heartbeats in one turn; each takes a microsecond or two."""
SLOW_TURN_S = 0.1
"""Longer turns are logged, with API and client."""

_size_at = Struct(">i").unpack_from
_log = Logger("connection")


class Connection(ClientStream):
    """The protocol of one accepted socket."""

    def __init__(self, services: ConnectionServices, listener: str) -> None:
        super().__init__(services, listener)
        self._most = services.limits.request_bytes + 4
        self._now = 0.0
        """The clock's time when it was last read."""
        self._call: Call | None = None
        self._following: list[Call] | None = None
        """Calls in progress after `_call`: Produce requests that came together."""
        self._last = -1, ""
        """API key and client id of the last request that is no repeated heartbeat, for lines."""
        self._work: Work[Any] | None = None
        self._response: Response | None = None
        """The answer that is encoded in slices."""
        self._room = SlicedRoom(services.limits)
        self._steady: SteadyBeat | None = None
        self._commits = commits_of(services.authorizer)

    # -- frames --------------------------------------------------------------------------------

    def _serve(self, data: bytes, now: float) -> None:
        """Answer requests until one has to wait, the turn is over, or the rest is incomplete.

        The hot path: rare cases are in separate functions.
        """
        out, seconds = self._out, self._seconds
        self.state = SERVING
        self.since = self._now = now
        self._in.needed = 4
        pos, end, beats, deadline = 0, len(data), 0, now + TURN_S
        try:
            while end - pos >= 4:
                size = _size_at(data, pos)[0] + 4
                if not 4 < size <= self._most:
                    size = self._check_size(size - 4, data, pos)
                stop = pos + size
                if stop > end:
                    self._in.needed = size
                    break
                steady = self._steady
                if steady is not None and steady.matches(data, pos, stop, now):
                    out.frames.append(steady.answer(data, pos))
                    beats += 1
                elif not (stop := self._frame(data, pos, stop, deadline)):
                    break  # it has to wait for room
                pos = stop
                over = out.unsent or self._now >= deadline or beats == BEATS
                if over or self.state is not SERVING:
                    break
        except (DecodeError, OverBudgetError) as error:
            self._refuse(error)
            return
        out.flush()
        if pos < end or self._in.charged or self._in.under_way or out.unsent:
            self._keep(data[pos:], again=self._now >= deadline)
        else:
            self.state = READING if self.state is SERVING else self.state
        took = seconds() - now
        if beats or took > SLOW_TURN_S:
            self._took(took, beats)

    def _frame(self, data: bytes, pos: int, stop: int, deadline: float) -> int:
        """Handle one request, or a run of Produce; return its end, or 0 to wait for room."""
        is_short = stop - pos == self._commits.size or stop < len(data)
        if is_short and (end := self._short(data, pos, stop)):
            return end
        header, body = read_request_header(data, pos + 4, stop)
        key, request = header.api_key, None
        handler = self._services.routes.get(key)
        is_long = stop - pos > (SLICED_PRODUCE_BYTES if key == PRODUCE else SLICED_REQUEST_BYTES)
        if handler is None or not is_served(key, header.api_version):
            handler, is_long = not_served(header, self._services), False
        elif not is_long:
            request = decode(header, data, body, stop)
        else:
            if stop - pos > self._most and key != PRODUCE:
                refusal = TooLong(key, header.api_version, self._services.limits.request_bytes)
                handler, is_long = refusal.handle, refusal.reads
            if is_long and not self._may_work(key, stop - pos):
                return 0
        call = self._begin(header)
        if is_long:
            call.in_slices = True
            self._work = Work(handle_in_slices(handler, call, data, body, stop))
        else:
            self._ask(handler, request, call)
        if self._work is not None:
            self._go_on(deadline)
        elif self._call is not None:
            self._wait(call, request, data, pos, stop)
        elif key == HEARTBEAT and self.state is SERVING:
            self._remember(request, data, pos, stop)
        return stop

    def _short(self, data: bytes, pos: int, stop: int) -> int:
        """Handle a repeated commit, or a run of Produce; return the end of it, or 0."""
        if stop - pos == self._commits.size and self._commit_again(data, pos):
            return stop
        return self._run(data, pos) if stop < len(data) and is_produce(data, stop) else 0

    def _run(self, data: bytes, pos: int) -> int:
        """Handle Produce requests that came together; return the end of the last one, or 0."""
        longest = self._services.limits.produce_bytes
        asked = ProduceRequests(data, pos, longest, self._begin)
        try:
            responses = self._services.produce_run(asked)
        except Exception:  # noqa: BLE001  # see _ask
            self._failed("request failed")
            return len(data)
        self._following = asked.calls[: len(responses)]
        self._call = self._following.pop(0) if self._following else None
        if None in responses:
            self.state = WAITING
            self._in.under_way = asked.ends[len(responses) - 1] - pos  # see _end_work
        else:
            for call, response in zip(asked.calls, responses, strict=False):
                self.answered(call, response)
        return asked.ends[len(responses) - 1] if responses else 0

    def _begin(self, header: RequestHeader) -> Call:
        client_id, peer = header.client_id or "", self.peer
        if client_id != peer.client_id:
            self.peer = peer = peer.named(client_id)
        caller = Caller(header.api_version, peer)
        self._last = header.api_key, peer.client_id  # not the header's: the peer's is kept anyway
        self._call = call = Call(self, header, caller, self._now)
        return call

    def _ask(self, handler: Handler, request: Any, call: Call) -> None:
        try:
            response = handler(request, call.caller, call)
        except Exception:  # noqa: BLE001  # a request's bug costs only its connection
            self._failed("request failed")
            return
        if type(response) is GeneratorType:
            self._work = Work(response)
        elif response is not None:
            self.answered(call, response)

    def _is_beat(self, data: bytes) -> bool:
        return self._steady is not None and self._steady.is_same(data)

    def _remember(self, request: Any, data: bytes, pos: int, stop: int) -> None:
        """Expect the same heartbeat again, except for its correlation id."""
        if request is None or not self._out.frames:  # too long, or not answered
            return
        services, frames = self._services, (data[pos:stop], self._out.frames[-1])
        found = steady_beat(services.steady, request, *frames, services.authorizer)
        if found is not None:
            self._turns.members.add(self._fd)
            self._steady = found

    def _wait(self, call: Call, request: Any, data: bytes, pos: int, stop: int) -> None:
        self.state = WAITING
        if call.header.api_key == OFFSET_COMMIT:
            call.asked = request, data[pos:stop]
            self._commits.asked()

    def _commit_again(self, data: bytes, pos: int) -> bool:
        """Handle a commit that repeats the last one, with other offsets."""
        offsets = self._commits.offsets_in(data, pos)
        if offsets is None:
            return False
        self._call = call = self._commits.call(self, data, pos, self._now)
        self._last = OFFSET_COMMIT, self.peer.client_id
        if not self._commits.repeat(call, offsets):
            self._call = None
            return False
        if self._call is not None:
            self.state = WAITING
        return True

    # -- work in slices ------------------------------------------------------------------------

    def _may_work(self, key: int, size: int) -> bool:
        """Return whether there is room for one more long request; if not, queue until there is."""
        if not self._room.take(key, size, self._queue_again):
            self._become(QUEUED)
            return False
        self._in.under_way = size
        return True

    def _may_serve(self) -> bool:
        return self._room.take_again(self._queue_again)

    def _go_on(self, deadline: float) -> None:
        """Work in slices until done, or until the turn is over."""
        services, limits = self._services, self._services.limits
        while (work := self._work) is not None:
            if self._call is not None and not limits.may_encode(self._call):
                self._wait_to_encode()
                return
            try:
                done = work.run(services.clock.seconds, deadline)
            except (DecodeError, OverBudgetError) as error:
                self._refuse(error)
            except Exception:  # noqa: BLE001  # see _ask
                self._failed("request failed")
            else:
                if not done:
                    if self.state is SERVING:
                        self._become(WORKING)
                    services.turns.again(self._turn)
                    return
                if self._work is work:  # else its answer is being encoded now
                    self._work = None
                    if work.result is not None and self._call is not None:
                        self._finish(self._call, work.result)
        self._end_work(again=services.clock.seconds() >= deadline)

    def _wait_to_encode(self) -> None:
        if self.state is SERVING:
            self._become(WORKING)
        turns = self._services.turns
        self._services.limits.unsent.wait(lambda: turns.again(self._turn))

    def _finish(self, call: Call, result: Any) -> None:
        """Send the result of work: pieces of an encoded answer, or a response to encode."""
        if type(result) is list:
            self._out.send(result)
            self._call = None
            self._free(self._response)
        else:
            self.answered(call, result)

    def _end_work(self, again: bool) -> None:
        self._now = self._services.clock.seconds()
        self._room.give_back()
        if self._call is None or self._call.header.api_key != PRODUCE:
            self._in.under_way = 0  # else its bytes are held until the disk has them
        if self.state is CLOSED:
            return
        if self._call is not None:
            self._become(WAITING)
        elif self.state is WORKING:
            self._out.flush()
            self._next(again=again)

    # -- answers -------------------------------------------------------------------------------

    def answered(self, call: Call, response: Response) -> None:
        """Send the answer of the current request; with NO_REPLY only continue with the next one."""
        if self.state is CLOSED:
            self._free(response)
            return
        assert self._call is call, "a request is answered exactly once"
        services, key = self._services, call.header.api_key
        self._now = now = self._seconds()
        if self._transport is None:
            self._free(response)
        else:
            services.requests[key].observe(now - call.began)
            if response is not NO_REPLY:
                is_long = call.in_slices or key in services.long_answers
                if is_long or (key == JOIN_GROUP and has_many_members(response)):
                    self._response = response
                    self._work = Work(encode_in_slices(call, response, services))
                    if self.state is WAITING:
                        self._become(WORKING)
                        services.turns.first(self._turn)
                    return
                try:
                    count_errors(services.answer_errors, key, response)
                    frame = encode(call.header, response)
                except Exception:  # noqa: BLE001  # the caller may have others to answer
                    self._failed("answer cannot be written")
                    return
                self._out.add(frame)
                if call.asked is not None:
                    self._commits.answered(services.steady, call, response, frame)
        self._call = self._following.pop(0) if self._following else None
        if self.state is WAITING and self._call is None:
            self._in.under_way = 0
            self._out.flush()
            if self._in.charged or self._out.unsent or self._transport is None:
                # Not served in this call: the caller may have others to answer.
                self._next()
            else:
                self.state = READING

    def _free(self, response: Response | None) -> None:
        """Free an answer after encoding, or without a client: in turns, if it is very long."""
        self._response = None
        if response is not None and response is not NO_REPLY:
            slices = free(response)
            for _ in slices:  # there is more than one
                self._services.turns.start(slices)
                break

    def answered_in_bytes(self, call: Call, frame: bytes) -> None:
        """Send finished bytes, whatever they are, as the answer of the call."""
        if self._call is call:
            self._out.frames.append(frame)
            self.answered(call, NO_REPLY)

    # -- ends ----------------------------------------------------------------------------------

    def _took(self, seconds: float, beats: int) -> None:
        if beats:
            self._services.requests[HEARTBEAT].observe(seconds, beats)
        key, client_id = self._last
        if seconds > SLOW_TURN_S and key >= 0:
            self._services.connections.stats.slow_turns += 1
            about = {"api": api_name(key), "client_id": client_id, "client": self.host}
            _log.warning("slow request", took_ms=round(seconds * 1000), **about)

    def _refuse(self, error: DecodeError | OverBudgetError) -> None:
        """Log that the bytes are not Kafka's or over a limit, and close without an answer."""
        limit = {"limit": error.limit} if isinstance(error, OverBudgetError) else {}
        _log.warning("connection refused", client=self.host, received=str(error), **limit)
        self._services.connections.stats.broken += 1
        self.close()

    def _failed(self, event: str) -> None:
        """Log a bug with its traceback, or that memory has run out, and end the connection."""
        if isinstance(sys.exception(), MemoryError):
            self._no_memory()
            return
        _log.exception(event, api_key=self._last[0], client_id=self._last[1])
        self.abort()

    def _dropped(self) -> None:
        self._in.under_way = 0
        self._room.give_back()
        self._call = self._work = None
        self._free(self._response)
        self._following = None
