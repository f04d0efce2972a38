"""Bytes that are not Kafka's protocol, and so many requests at once that no client sends them."""

import struct
from random import Random

from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.describe_cluster import DescribeClusterRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.registry import APIS
from tests.chaos.attacks.support import deliver, names, produce, topics
from tests.chaos.target import Attack, Steps, Target, check
from tests.chaos.wire import Stream, closed_within, dial, pump
from tests.support.requests import fetch_request, heartbeat
from tests.support.wire import frame
from tests.topics.scene import batch

FAMILY = "bytes"
CLOSED_SECONDS = 10.0
LARGEST = 104_857_600
_HEAD = struct.Struct(">ihhih")
_CLIENT = b"chaos"


def _framed(key: int, version: int, body: bytes, flexible: bool = False) -> bytes:
    tags = b"\0" if flexible else b""
    size = 10 + len(_CLIENT) + len(tags) + len(body)
    return _HEAD.pack(size, key, version, 1, len(_CLIENT)) + _CLIENT + tags + body


MALFORMED = {
    **{
        f"size {size}": struct.pack(">i", size) + b"\0"
        for size in (0, -1, -(2**31), 2**31 - 1, LARGEST + 1, 1)
    },
    "API 999": _framed(999, 0, b""),
    "API -1": _framed(-1, 0, b""),
    "Metadata 99": _framed(3, 99, b""),
    "Metadata -1": _framed(3, -1, b""),
    "2^31-1 topics": _framed(3, 1, b"\x7f\xff\xff\xff"),
    "-2 topics": _framed(3, 1, b"\xff\xff\xff\xfe"),
    "varint of 10 bytes": _framed(3, 9, b"\xff" * 10, flexible=True),
    "varint without end": _framed(3, 9, b"\x80" * 30, flexible=True),
    "tags without end": _framed(3, 9, b"\x01\0\0\xff\xff\xff\xff\x0f", flexible=True),
    "bad UTF-8": _framed(10, 0, b"\0\4\xff\xfe\xc0\x80"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),
}


def malformed(target: Target) -> Steps:
    yield
    for name, data in MALFORMED.items():
        sock = dial(target.kafka)
        sock.sendall(data)
        check(closed_within(sock, CLOSED_SECONDS), f"{name}: not closed")
        sock.close()
    return f"{len(MALFORMED)} kinds"


def noise(target: Target) -> Steps:
    chance = Random(4711)
    frames = [
        _framed(
            api.key,
            version,
            chance.randbytes(chance.choice([3, 40, 400])),
            layout_of(api.request_type).is_flexible(version),
        )
        for api in APIS.values()
        for version in range(api.served[0], api.served[1] + 1)
        for _ in range(3)
    ]
    yield
    streams = [Stream(dial(target.kafka), chance.randbytes(4096), 1) for _ in range(200)]
    streams += [Stream(dial(target.kafka), data, 1) for data in frames]
    pump(streams, 5.0)
    open_ = sum(not stream.closed and not stream.answers for stream in streams)
    for stream in streams:
        stream.socket.close()
    return f"{len(streams)} connections, {open_} still waiting after 5 s"


def pipelined_heartbeats(target: Target) -> Steps:
    data = frame(3, heartbeat("nobody", 1, "a-group-of-some-length")) * 12_000
    yield
    stream = deliver(target, data, 12_000, 30.0)
    check(stream.answers == 12_000, f"{stream.answers} of 12000 heartbeats answered")
    return "12,000 answered"


def pipelined_produce(target: Target) -> Steps:
    """Five requests of 50 batches in flight, as Java's producer sends them with its defaults."""
    topics(target, ["wide"], 50)
    large = frame(7, produce("wide", batch("v" * 16_000), 50))
    small = frame(3, heartbeat("nobody", 1, "nowhere"))
    yield
    for behind in (0, 1):
        data = large * 50 + small * behind
        stream = deliver(target, data, 50 + behind, 40.0)
        check(stream.answers == 50 + behind, f"{stream.answers} of {50 + behind} answered")
    return f"2 x {len(large) * 50 / 1e6:.0f} MB answered"


def pipelined_small(target: Target) -> Steps:
    topics(target, names("t", 10))
    requests = [
        frame(3, ApiVersionsRequest(client_software_name="c", client_software_version="1")),
        frame(3, FindCoordinatorRequest(key="g", key_type=0)),
        frame(4, ListGroupsRequest()),
        frame(1, MetadataRequest(topics=None)),
        frame(4, MetadataRequest(topics=[MetadataRequestTopic(name="t0")])),
        frame(0, DescribeClusterRequest()),
        frame(8, fetch_request("g")),
    ]
    yield
    for data in requests:
        count = 250_000 // len(data)
        stream = deliver(target, data * count, count, 30.0)
        check(stream.answers == count, f"{stream.answers} of {count} answered")
    return f"{len(requests)} x 250 KB answered"


ATTACKS = (
    Attack(
        "malformed",
        FAMILY,
        "sizes, API keys, versions, counts, varints and text that cannot be; HTTP; TLS",
        malformed,
    ),
    Attack(
        "noise", FAMILY, "200 x 4 KB of noise; random bodies to every API in every version", noise
    ),
    Attack(
        "pipelined-heartbeats",
        FAMILY,
        "12,000 heartbeats (over 256 KiB) in one send",
        pipelined_heartbeats,
    ),
    Attack(
        "pipelined-produce",
        FAMILY,
        "50 requests of 50 x 16 kB in flight, with and without a request behind them",
        pipelined_produce,
    ),
    Attack(
        "pipelined-small",
        FAMILY,
        "250 KB of small requests in one send, of seven kinds",
        pipelined_small,
    ),
)
