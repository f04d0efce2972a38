"""Plays the cluster that sarama's tests expect, in front of one broker.

`python -m tests.suites.sarama_cluster HOST:PORT` prints `ready HOST:PORT` with the address of its
toxiproxy. It forwards 127.0.0.1:29091 to 29095, the addresses that are written in the tests, and
answers what they ask of toxiproxy; it slows and cuts nothing. Two things change on the way:
CreateTopics asks for one replica instead of three, and what the broker calls itself becomes
127.0.0.1:29091, so that every connection comes this way. Metadata still names one node.
"""

import asyncio
import contextlib
import functools
import json
import sys
from collections.abc import Callable
from struct import Struct

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.registry import request_decoder
from tests.support.codecs import request_encoder

HOST = "127.0.0.1"
PORTS = range(29091, 29096)
_TELLING = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER}
"""Their answers have addresses."""
_size = Struct(">i")
_key_version_correlation = Struct(">hhi")


class Link:
    """What one connection has to remember: which answers will tell addresses."""

    def __init__(self, broker: tuple[str, int]) -> None:
        self._broker = broker
        self._telling: set[int] = set()

    def request(self, frame: bytes) -> bytes:
        """A request as the broker gets it; frames are with their size in front."""
        key, _version, correlation_id = _key_version_correlation.unpack_from(frame, _size.size)
        if key in _TELLING:
            self._telling.add(correlation_id)
        return _with_one_replica(frame) if key == ApiKey.CREATE_TOPICS else frame

    def response(self, frame: bytes) -> bytes:
        """An answer as the client gets it."""
        (correlation_id,) = _size.unpack_from(frame, _size.size)
        if correlation_id not in self._telling:
            return frame
        self._telling.remove(correlation_id)
        host, port = self._broker
        for name in {host, HOST, "localhost"}:
            own, ours = (name.encode() + _size.pack(each) for each in (port, PORTS[0]))
            frame = frame.replace(own, ours)
        return frame


def _with_one_replica(frame: bytes) -> bytes:
    header, body = read_request_header(frame, _size.size, len(frame))
    key, version = header.api_key, header.api_version
    request = request_decoder(key, version)(frame, body, len(frame))
    for topic in request.topics:
        topic.replication_factor = min(topic.replication_factor, 1)
    return request_encoder(key, version)(request, header.correlation_id, header.client_id)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edit: Callable[[bytes], bytes]
) -> None:
    """Frames from one side to the other, until one of them goes."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            size = await reader.readexactly(_size.size)
            body = await reader.readexactly(_size.unpack(size)[0])
            writer.write(edit(size + body))
            await writer.drain()
    writer.close()


async def _forward(
    broker: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        from_broker, to_broker = await asyncio.open_connection(*broker)
    except OSError:
        writer.close()
        return
    link = Link(broker)
    await asyncio.gather(
        _pump(reader, to_broker, link.request), _pump(from_broker, writer, link.response)
    )


async def _toxiproxy(
    broker: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One HTTP request and its answer: every proxy that is asked for is there, and open."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(toxiproxy_answer(head.decode("latin-1").split()[1], broker))
        await writer.drain()
    writer.close()


def toxiproxy_answer(path: str, broker: tuple[str, int]) -> bytes:
    """`/proxies/kafkaN` is described; anything else is accepted and does nothing."""
    status, body = "204 No Content", b""
    if path.startswith("/proxies/"):
        name = path.rpartition("/")[2]
        proxy = {
            "name": name,
            "listen": f"{HOST}:{PORTS[0] - 1 + int(name[-1])}",
            "upstream": f"{broker[0]}:{broker[1]}",
            "enabled": True,
        }
        status, body = "200 OK", json.dumps(proxy).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _serve(broker: tuple[str, int]) -> None:
    forward = functools.partial(_forward, broker)
    servers = [await asyncio.start_server(forward, HOST, port) for port in PORTS]
    servers.append(await asyncio.start_server(functools.partial(_toxiproxy, broker), HOST, 0))
    host, port = servers[-1].sockets[0].getsockname()
    print(f"ready {host}:{port}", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(arguments: list[str]) -> int:
    host, _, port = arguments[0].rpartition(":")
    try:
        asyncio.run(_serve((host, int(port))))
    except OSError as error:
        print(f"cannot listen on {HOST}:{PORTS[0]} to {PORTS[-1]}: {error.strerror}", flush=True)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
