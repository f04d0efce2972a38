"""`GET /follow`: streams new events as server-sent events.

The event log serves as the queue: each stream keeps one offset per partition and reads at its own
pace, so it sends exactly what is stored, once it is durable. A client that stops reading costs only
the memory of one piece; the port closes its connection after `TIMEOUT_S`.

Source: the section "Server-sent events" of the HTML standard.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

from groupkeeper.observe.http_exchange import HttpAnswer
from groupkeeper.observe.logs import Logger
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.web.group_view import driver_of
from groupkeeper.web.parts import SOON, HttpRefused, Parts, RoutedRequest
from groupkeeper.web.route import EventPosition, place_text, read_place
from groupkeeper.web.stored_events import EventReader, Stored, event_partition

FOLLOWERS: Final = 32
"""Maximum number of streams; fewer than the port's requests (`ANSWERS`), so that pages load."""
HEARTBEAT_S: Final = 15.0
"""Time without events after which a comment is sent, to detect a dead connection."""
GATHER_S: Final = 0.1
"""Delay before new events are read, so that streams do not wake up for each single event."""
RETRY_S: Final = 1.0
"""Pause after a partition could not be read."""

PIECE_BYTES: Final = 64 * 1024
"""Size of the pieces in which events are sent."""

_HELLO: Final = b"retry: 2000\n: events follow\n\n"
_HEARTBEAT: Final = b": no events\n\n"
_GAP: Final = b'event: gap\ndata: {"why": "it begins now: only a stream of one group goes on"}\n\n'
_LOST: Final = b'event: gap\ndata: {"why": "events before this are not stored any more"}\n\n'
_STREAM: Final = "text/event-stream"
_log = Logger("http")


async def follow(parts: Parts, call: RoutedRequest) -> HttpAnswer:
    """Open a stream. Raises HttpRefused if there are too many, if events are not stored, and if the
    group's partition is not active.
    """
    if not parts.options.settings.group_events_enabled:
        raise HttpRefused(409, "events are not stored: set group.events.enabled=true")
    if len(parts.followers) >= FOLLOWERS:
        parts.metrics.counts["limits_reached", "http_followers"] += 1
        if times := parts.seldom.due("http_followers"):
            where = {"path": "follow", "client": call.request.remote, "times": times}
            _log.warning("limit reached", limit="http_followers", most=FOLLOWERS, **where)
        raise HttpRefused(503, f"{FOLLOWERS} streams are open: close one", SOON)
    group: str | None = call.query["group"]
    text = call.request.headers.get("last-event-id", "")
    last: EventPosition | None = read_place(text, "Last-Event-ID") if text else call.query["after"]
    numbers = [each.index for each in parts.groups]
    if group is not None:
        numbers = [driver_of(parts, group).index]
    if call.request.method == "HEAD":
        return HttpAnswer(200, b"", _STREAM)
    source = _Stored(parts, group, numbers)
    follower = _Follower(parts.followers, source.pieces())
    async with AsyncExitStack() as unless_it_follows:
        unless_it_follows.push_async_callback(follower.aclose)
        if last is not None:
            await source.go_on(last)
        unless_it_follows.pop_all()
    return HttpAnswer(200, follower, _STREAM)


class _Follower:
    """The pieces of one stream. It counts towards `FOLLOWERS` until closed, started or not."""

    def __init__(self, followers: set[object], pieces: AsyncGenerator[bytes, None]) -> None:
        self._followers = followers
        self._pieces = pieces
        followers.add(self)

    def __aiter__(self) -> "_Follower":
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        self._followers.discard(self)
        await self._pieces.aclose()


# -- the log as the queue ------------------------------------------------------------------------


class _Watcher:
    """Records that a partition has new events."""

    def __init__(self, partition: TopicPartition, grown: set[int], event: asyncio.Event) -> None:
        self._partition = partition
        self._grown = grown
        self._event = event
        partition.watch(self)

    def grew(self, size: int) -> None:
        self._grown.add(self._partition.index)
        self._event.set()

    def changed(self) -> None:
        self.grew(0)

    def stop(self) -> None:
        self._partition.watchers.pop(self, None)


class _Stored:
    """Reads the new events of some partitions."""

    def __init__(self, parts: Parts, group: str | None, numbers: Sequence[int]) -> None:
        self._parts = parts
        self._group = group
        self._partitions = {each: event_partition(parts.topics, each) for each in numbers}
        self._offsets: dict[int, int | None] = {
            number: None if each.log is None else each.log.next_offset
            for number, each in self._partitions.items()
        }
        """Next offset by partition; None if its log has been closed since the stream began."""
        self._began_ms = parts.clock.wall()
        self._grown = set[int]()
        self._event = asyncio.Event()
        self._gap = b""

    async def go_on(self, last: EventPosition) -> None:
        """Begin after a place. Raises HttpRefused if the log is unavailable."""
        if self._group is None:
            self._gap = _GAP  # a place belongs to one partition, but this stream has all
            return
        [number] = self._partitions
        reader = self._reader(number)
        offset = self._offsets[number] = await reader.after(last)
        self._grown.add(number)
        before = await reader.place_before(offset)
        start, _ = await reader.bounds()
        if before != last and (before is not None or start):
            self._gap = _LOST

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        watchers = [_Watcher(each, self._grown, self._event) for each in self._partitions.values()]
        try:
            yield _HELLO
            if self._gap:
                yield self._gap
            while True:
                for number in sorted(self._grown):
                    self._grown.discard(number)
                    async for piece in self._new(number):
                        yield piece
                if not self._grown and not await self._wait():
                    yield _HEARTBEAT
        finally:
            for watcher in watchers:
                watcher.stop()

    async def _new(self, number: int) -> AsyncGenerator[bytes, None]:
        """Yield one partition's new events as frames, and advance its offset. If retention deleted
        unread events, yields `_LOST` first.
        """
        began = offset = self._offsets[number]
        try:
            reader = self._reader(number)
            if offset is None:
                offset = await reader.since(self._began_ms)
            elif offset < (await reader.bounds())[0]:
                yield _LOST
            async for found in reader.read(offset, self._end(number)):
                offset = self._offsets[number] = found.following
                for piece in _frames(found.events):
                    yield piece
        except HttpRefused:  # the log is closed, and will be opened again soon
            pass
        if (offset or 0) < self._end(number):
            self._grown.add(number)
            if self._offsets[number] == began:
                await asyncio.sleep(RETRY_S)

    async def _wait(self) -> bool:
        """Wait for new events; return False after `HEARTBEAT_S` without any."""
        self._event.clear()
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._event.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(GATHER_S)
        return True

    def _end(self, number: int) -> int:
        """Return the log end offset; the log may have been closed and opened again."""
        log = event_partition(self._parts.topics, number).log
        return 0 if log is None else log.next_offset

    def _reader(self, number: int) -> EventReader:
        return EventReader(self._parts.topics, self._parts.turns, number, self._group)


def _frames(events: Iterable[Stored]) -> Iterator[bytes]:
    """Yield events as frames, in pieces of about `PIECE_BYTES`."""
    frames, size = list[bytes](), 0
    for each in events:
        frame = b"id: %b\ndata: %b\n\n" % (place_text(each.place).encode(), each.value)
        frames.append(frame)
        size += len(frame)
        if size >= PIECE_BYTES:
            yield b"".join(frames)
            frames, size = [], 0
    if frames:
        yield b"".join(frames)
