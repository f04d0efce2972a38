"""Logs made by hand: batches with every attribute, keys and values of every version. For tests."""

import struct
import tempfile
from pathlib import Path
from types import MappingProxyType

import cramjam
from crc32c import crc32c

from groupkeeper.analytics.pipeline.engine import Engine
from groupkeeper.analytics.pipeline.output import Output
from groupkeeper.analytics.pipeline.run import Trunk
from groupkeeper.analytics.reading.plan import plan_topics
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.protocol.embedded import assignment_of
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

NOW = 1_700_000_000_000
TRANSACTIONAL, CONTROL, APPEND_TIME, HORIZON = 0x10, 0x20, 0x08, 0x40
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

# Made by Kafka's own classes: group metadata, transactional commit, commit marker, two tombstones,
# a cleaned batch, an empty one.
GOLDEN = tuple(
    bytes.fromhex("".join(lines.split()))
    for lines in (
        """
        0000000000000000000000560000000502cc4d425a0000000000000000018bcfe568000000018bcfe56800ff
        ffffffffffffffffffffffffff00000001480000000c000200026731300003000000000000ffffffff000001
        8bcfe568000000000000
        """,
        """
        00000000000000030000005f000000050278c452000010000000000000018bcfe568000000018bcfe5680000
        00000000000fa0000200000000000000015a0000001a00010002673100017400000003340003000000000000
        00640000000700026d640000018bcfe5680000
        """,
        """
        000000000000000400000042000000050244a47b880030000000000000018bcfe568010000018bcfe5680100
        00000000000fa00002ffffffff000000012000000008000000010c00000000000900
        """,
        """
        00000000000000060000005200000005023d25e0a80000000000010000018bcfe568050000018bcfe56807ff
        ffffffffffffffffffffffffff00000002260000001a000100026731000174000000030100180004020c0002
        000267310100
        """,
        """
        00000000000000080000004100000005029d2aa3580040000000020000018bd50bc7e80000018bcfe56807ff
        ffffffffffffffffffffffffff000000011e00c1ffb252020c0002000267310100
        """,
        """
        0000000000000008000000310000000502039eecc3000000000002ffffffffffffffff0000018bcfe56809ff
        ffffffffffffffffffffffffff00000000
        """,
    )
)


def varint(number):
    raw = (number << 1) ^ (number >> 63)
    raw &= (1 << 64) - 1
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def blob(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta, key, value, headers=(), time_delta=0):
    body = b"\0" + varint(time_delta) + varint(delta) + blob(key) + blob(value)
    body += varint(len(headers)) + b"".join(blob(name) + blob(data) for name, data in headers)
    return varint(len(body)) + body


def compress(codec, data):
    match codec:
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            block = bytes(cramjam.snappy.compress_raw(data))
            return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
        case 3:
            return bytes(cramjam.lz4.compress(data))
        case 4:
            return bytes(cramjam.zstd.compress(data))
        case _:
            return data


def batch(records, base=0, attributes=0, producer=-1, **overrides):
    """A batch of (key, value) pairs. `overrides`: count, last_delta, payload, magic, base_time,
    max_time.
    """
    plain = overrides.get("payload") or b"".join(
        record(delta, key, value) for delta, (key, value) in enumerate(records)
    )
    count = overrides.get("count", len(records))
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        overrides.get("last_delta", max(count - 1, 0)),
        overrides.get("base_time", NOW),
        overrides.get("max_time", NOW + 7),
        producer,
        0 if producer >= 0 else -1,
        -1,
        count,
    )
    checked += compress(attributes & 7, plain)
    head = struct.pack(
        ">qiibI", base, len(checked) + 9, 5, overrides.get("magic", 2), crc32c(checked)
    )
    return head + checked


def commit(group, topic, partition, offset, **options):
    """An offset commit. Options: version (3), metadata, epoch, key_type (1)."""
    key = encode_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=options.get("epoch", -1),
        metadata=options.get("metadata", ""),
        commit_timestamp=options.get("time", NOW),
        expire_timestamp=options.get("expire", -1),
    )
    kind = struct.pack(">h", options.get("key_type", 1))
    return kind + key[2:], encode_value(value, options.get("version", 3))


def forgotten(group, topic, partition):
    """The tombstone of a commit."""
    return commit(group, topic, partition, 0)[0], None


def group(name, generation, *members, **options):
    """A group record; members are ids, or (id, instance id). Options: version (3), leader, and
    `orders`: partitions of the topic by member id.
    """
    shares = options.get("orders", {})
    value = GroupMetadataValue(
        protocol_type="consumer" if generation else "",
        generation=generation,
        protocol="range" if members else None,
        leader=options.get("leader"),
        current_state_timestamp=NOW,
        members=[
            _member(*([each] if isinstance(each, str) else each), shares=shares) for each in members
        ],
    )
    return encode_key(GroupMetadataKey(group=name)), encode_value(value, options.get("version", 3))


def _member(member_id, instance_id=None, shares=MappingProxyType({})):
    places = [("orders", partition) for partition in shares.get(member_id, ())]
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        assignment=assignment_of(places) if places else b"",
    )


def no_group(name):
    """The tombstone of a group."""
    return encode_key(GroupMetadataKey(group=name)), None


STORY = [
    ("created", group("g", 0)),
    ("rebalance", group("g", 1, ("a", "i"), "b", leader="b")),
    ("static replacement", group("g", 1, ("a2", "i"), "b", leader="b")),
    ("rewrite", group("g", 1, "b", ("a2", "i"), leader="b")),
    ("rebalance", group("g", 4, "b", leader="b")),
    ("emptied", group("g", 5)),
    ("rebalance", group("g", 6, "c")),
    ("reset", group("g", 2, "c")),
    ("emptied", group("g", 2)),
    ("deleted", no_group("g")),
    ("created", group("g", 0)),
    ("rebalance", group("g", 1, ("z", "i"), leader="z")),
]
"""Records of a group, and what each of them changed."""


def marker(base, producer, *, commit, **overrides):
    """An end-transaction marker."""
    pair = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 9))
    return batch([pair], base, TRANSACTIONAL | CONTROL, producer, **overrides)


def varied():
    """Batches, one behind the other from offset 0 on, with all that a log can hold."""
    made = [
        [
            commit("g", "t", 0, version, version=version, metadata="é" * version, epoch=3),
            group("g", version, "m", ("n", "i") if version >= 3 else "n", version=version),
        ]
        for version in range(5)
    ]
    made += [
        [forgotten("g", "t", 0), no_group("g")],
        [commit("old", "t", 1, 9, key_type=0, version=0)],
        [(b"\0\x03\0\x01g", b"\0\0\0\0\0\x01\0"), (b"\0\x63", b"?"), (b"\xff\xff\0\x01g", b"")],
        [(None, b"v"), (b"\0", b"v"), (b"\0\x01\0\x09g", b"v"), (b"\0\x02\0\x09g", None)],
        [(commit("g", "t", 1, 2)[0], b"\0\x03\0"), (commit("g", "t", 1, 2)[0], b"")],
        [(commit("g", "t", 1, 2)[0], commit("g", "t", 1, 2)[1] + b"x")],
    ]
    base, batches = 0, []
    for number, records in enumerate(made * 2):
        codec = number % 5 if number >= len(made) else 0
        batches.append(batch(records, base, codec | (APPEND_TIME if number % 3 == 0 else 0)))
        base += len(records)
    batches += [
        batch([commit("g", "t", 4, 1)], base, TRANSACTIONAL, producer=7),
        marker(base + 1, 7, commit=True),
        batch([], base + 2, count=0, last_delta=4),
        batch([None], base + 7, payload=record(0, *commit("g", "t", 4, 2), [(b"h", None)], -5)),
    ]
    return batches


def log(*batches):
    """The batches one behind the other, with rising offsets from 0 on."""
    made, base = [], 0
    for data in batches:
        made.append(struct.pack(">q", base) + data[8:])
        base += struct.unpack_from(">i", data, 23)[0] + 1
    return b"".join(made)


def write_segment(folder: Path, base: int, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020d}.log"
    path.write_bytes(data)
    return path


def analysis(*paths, engine=None, out=None, **how):
    """The result of the pipeline on what is under `paths`, in this process unless an engine is
    given. Options: groups, chunk_bytes.
    """
    chunk_bytes = how.pop("chunk_bytes", None)
    with tempfile.TemporaryDirectory() as scratch:
        trunk = Trunk(engine or Engine(1), scratch, Output(out) if out else None)
        plans = plan_topics(paths, chunk_bytes)
        return trunk.run(plans[OFFSETS], events=plans[EVENTS], **how)


def tables(*paths, **how):
    """Rows of the tables that are printed, by name. Options: see `analysis`."""
    return {name: each.to_pylist() for name, each in analysis(*paths, **how).tables.items()}


def index_of(batches, base=0, every=1, padding=0):
    """An index with an entry for each `every`-th batch but the first, and zeros behind."""
    entries, position = b"", 0
    for number, data in enumerate(batches):
        if number and number % every == 0:
            last = struct.unpack_from(">q", data)[0] + struct.unpack_from(">i", data, 23)[0]
            entries += struct.pack(">ii", last - base, position)
        position += len(data)
    return entries + bytes(padding)
