"""The floor: what one Python process can answer at most. `python -m benchmarks.floor PORT`

An asyncio Protocol and straight-line struct code for the versions that the generator sends. It
reads what a coordinator would have to read and answers "no error". Not a coordinator: it knows no
groups, no timers and no disk, every member that joins is told that it is alone.
"""

import asyncio
import struct
import sys

_REQUEST = struct.Struct(">ihhih")  # size, API key, version, correlation id, bytes of client id
_HEARTBEAT = struct.Struct(">iiBihB")
_COMMITTED = struct.Struct(">iqiB")
_PARTITION = struct.Struct(">ihB")
_NAME = b"\6range"
_MEMBER = b"\2m"

OFFERED = {8: 8, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 18: 0}


def _api_versions() -> bytes:
    rows = b"".join(struct.pack(">hhh", key, 0, last) for key, last in OFFERED.items())
    return struct.pack(">hi", 0, len(OFFERED)) + rows


# What is asked once per connection, not once per request: whole bodies, ready-made.
_RARE = {
    10: struct.pack(">BihBi", 0, 0, 0, 0, 1) + b"\x0a127.0.0.1" + struct.pack(">iB", 0, 0),
    11: struct.pack(">Bihi", 0, 0, 0, 1) + _NAME + _NAME + _MEMBER + _MEMBER + b"\2\2m\0\1\0\0",
    13: struct.pack(">BihBB", 0, 0, 0, 1, 0),
    14: struct.pack(">Bih", 0, 0, 0) + _NAME + _NAME + b"\2p\0",
    18: _api_versions(),
}


def _heartbeat(data: bytes, at: int, correlation_id: int) -> bytes:
    """Heartbeat v4, `at` behind the header: reads all its fields."""
    end = at + data[at]
    data[at + 1 : end].decode()
    at = end + 4
    end = at + data[at]
    data[at + 1 : end].decode()
    return _HEARTBEAT.pack(12, correlation_id, 0, 0, 0, 0)


def _commit(data: bytes, at: int, correlation_id: int) -> bytes:
    """OffsetCommit v8 of one topic: reads every offset and answers every partition."""
    end = at + data[at]
    data[at + 1 : end].decode()
    at = end + 4
    end = at + data[at]
    data[at + 1 : end].decode()
    at = end + 2  # no instance id; one topic
    end = at + data[at]
    name = data[at:end]
    count = data[end]
    at = end + 1
    answers = []
    for _ in range(count - 1):
        partition, _offset, _epoch, metadata = _COMMITTED.unpack_from(data, at)
        answers.append(_PARTITION.pack(partition, 0, 0))
        at += 17 + metadata if metadata else 18
    body = b"\0\0\0\0\0\2" + name + bytes((count,)) + b"".join(answers) + b"\0\0"
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


class Responder(asyncio.Protocol):
    """One connection: whole requests in, one write per read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at, end = 0, len(data)
        answers = []
        while end - at >= _REQUEST.size:
            size, key, _version, correlation_id, client = _REQUEST.unpack_from(data, at)
            following = at + 4 + size
            if following > end:
                break
            if key == 12:
                answers.append(_heartbeat(data, at + 15 + client, correlation_id))
            elif key == 8:
                answers.append(_commit(data, at + 15 + client, correlation_id))
            else:
                body = _RARE[key]
                answers.append(struct.pack(">ii", 4 + len(body), correlation_id) + body)
            at = following
        self.rest = data[at:]
        if answers:
            self.transport.write(answers[0] if len(answers) == 1 else b"".join(answers))


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Responder, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
