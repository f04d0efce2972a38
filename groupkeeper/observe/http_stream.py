"""A connection of the HTTP port, as Tornado's IOStream.

Adds what Tornado does not do: received bytes are passed on in turns, an answer that is not read is
cut off in time, and a request that is too long is answered 431.
"""

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from tornado.iostream import IOStream, UnsatisfiableReadError

from groupkeeper.observe.http_limits import HEADER_BYTES
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import Turns

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"

_log = Logger("http")


class StreamOwner(Protocol):
    """Who has accepted a connection."""

    def closed(self, stream: "Stream") -> None: ...

    def not_taken(self) -> None:
        """An answer was not read in time: the connection is closed next."""


class Stream(IOStream):
    """One client's connection."""

    def __init__(
        self,
        connection: socket.socket,
        turns: Turns,
        timeout_s: float,
        owner: "StreamOwner",
        remote: str = "",
    ) -> None:
        super().__init__(connection, max_buffer_size=4 * HEADER_BYTES, read_chunk_size=HEADER_BYTES)
        self._loop = asyncio.get_running_loop()
        self._turns = turns
        self._timeout_s = timeout_s
        self._owner = owner
        self.remote = remote
        """The client's address."""
        self._unread: asyncio.TimerHandle | None = None
        self.await_request()

    def await_request(self) -> None:
        """Expect the next request from now on."""
        self.waiting_since: float | None = self._loop.time()
        """Time of the loop; None while a request is being answered."""
        self.headers_came = self._answer_begun = False

    def await_answer(self) -> None:
        """A whole request is here."""
        self.waiting_since = None

    def idle_since(self) -> tuple[bool, float] | None:
        """A sort key: the smallest is closed first for a new connection. Connections that wait for
        a request come before those whose client does not read. None while busy.
        """
        if self.waiting_since is not None:
            return False, self.waiting_since
        return None if self._unread is None else (True, self._unread.when())

    # -- reading: one read is handed over in an iteration of the loop ----------------------------

    def read_until_regex(self, regex: bytes, max_bytes: int | None = None) -> Awaitable[bytes]:
        return self._in_turn(super().read_until_regex(regex, max_bytes))

    def read_until(self, delimiter: bytes, max_bytes: int | None = None) -> Awaitable[bytes]:
        return self._in_turn(super().read_until(delimiter, max_bytes))

    def read_bytes(self, num_bytes: int, partial: bool = False) -> Awaitable[bytes]:
        return self._in_turn(super().read_bytes(num_bytes, partial))

    def _in_turn(self, read: Awaitable[bytes]) -> Awaitable[bytes]:
        return self._hand_over(read)

    async def _hand_over(self, read: Awaitable[bytes]) -> bytes:
        try:
            data = await read
        finally:
            del read  # its error refers to this frame: they would be a cycle
        await self._turns.wait()
        return data

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        """Report the end of the input only after the answer has begun, or in the middle of a
        request: a client that half-closes after its last request still gets the answer.
        """
        size = super().read_from_fd(buf)
        return None if size == 0 and not (self.reading() or self._answer_begun) else size

    # -- writing ---------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> "asyncio.Future[None]":
        self._answer_begun = self.waiting_since is None
        written = super().write(data)
        if self._unread is None and self.writing():
            self._unread = self._loop.call_later(self._timeout_s, self._not_taken)
        written.add_done_callback(self._taken)
        return written

    def _taken(self, _: object) -> None:
        if self._unread is not None and (self.closed() or not self.writing()):
            self._unread.cancel()
            self._unread = None

    def _not_taken(self) -> None:
        self._owner.not_taken()
        _log.info("answer not taken in time", limit="TIMEOUT_S", seconds=self._timeout_s)
        self.close()

    def close(
        self,
        exc_info: bool
        | BaseException
        | tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
        | None = False,
    ) -> None:
        """Close, and answer 431 if the headers were too long. Also called by Tornado."""
        if isinstance(exc_info, UnsatisfiableReadError) and not self.closed():
            if not self.headers_came:
                with suppress(OSError):
                    self.socket.send(_TOO_LARGE)
            with suppress(OSError):  # closing with unread input would reset, and lose the answer
                self.socket.recv(8 * HEADER_BYTES)
        super().close(exc_info)
        if self.error is not None:
            self._loop.call_soon(self._forget_error)
        self._taken(None)
        self._owner.closed(self)

    def _forget_error(self) -> None:
        """After it was raised: its traceback refers to this stream, which would be a cycle."""
        error, self.error = self.error, None
        if error is not None:
            error.with_traceback(None)
