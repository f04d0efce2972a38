"""The floor: what one Python process can answer at most. `python -m benchmarks.floor PORT`

An asyncio Protocol and straight-line struct code for the versions that the generator sends. It
reads what a coordinator would have to read and answers "no error". Not a coordinator: it knows no
groups, no timers and no disk, every member that joins is told that it is alone.
"""

import asyncio
import struct
import sys

from groupkeeper.protocol.api_keys import ApiKey

_REQUEST = struct.Struct(">ihhih")  # size, API key, version, correlation id, bytes of client id
_HEARTBEAT = struct.Struct(">iiBihB")
_COMMITTED = struct.Struct(">iqiB")
_PARTITION = struct.Struct(">ihB")
_NAME = b"\6range"
_MEMBER = b"\2m"

OFFERED = {
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 7,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.API_VERSIONS: 0,
}
"""API key -> the one version that is answered, the newest of those that are advertised."""
_HEARTBEAT_KEY, _COMMIT_KEY = int(ApiKey.HEARTBEAT), int(ApiKey.OFFSET_COMMIT)


def _api_versions() -> bytes:
    rows = b"".join(struct.pack(">hhh", key, 0, last) for key, last in OFFERED.items())
    return struct.pack(">hi", 0, len(OFFERED)) + rows


# What is asked once per connection, not once per request: whole bodies, ready-made.
_RARE = {
    ApiKey.FIND_COORDINATOR: struct.pack(">BihBi", 0, 0, 0, 0, 1)
    + b"\x0a127.0.0.1"
    + struct.pack(">iB", 0, 0),
    ApiKey.JOIN_GROUP: struct.pack(">Bihi", 0, 0, 0, 1)
    + _NAME
    + _NAME
    + _MEMBER
    + _MEMBER
    + b"\2\2m\0\1\0\0",
    ApiKey.LEAVE_GROUP: struct.pack(">BihBB", 0, 0, 0, 1, 0),
    ApiKey.SYNC_GROUP: struct.pack(">Bih", 0, 0, 0) + _NAME + _NAME + b"\2p\0",
    ApiKey.API_VERSIONS: _api_versions(),
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
            if key == _HEARTBEAT_KEY:
                answers.append(_heartbeat(data, at + 15 + client, correlation_id))
            elif key == _COMMIT_KEY:
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
