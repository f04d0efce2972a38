"""Records of consumer, share and streams groups, made by hand. For tests."""

import struct

ORDERS = bytes(range(16))
VERSION, NO_TAGS = b"\0\0", b"\0"


def text(value):
    """A string of keys, which are not flexible."""
    return struct.pack(">h", len(value)) + value.encode()


def compact(value):
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def key(kind, *names):
    return struct.pack(">h", kind) + b"".join(map(text, names))


def epoch(name, number, kind=3):
    more = b"" if kind == 3 else bytes(8)
    return key(kind, name), VERSION + struct.pack(">i", number) + more + NO_TAGS


def target(name, number, kind=6):
    return key(kind, name), VERSION + struct.pack(">i", number) + NO_TAGS


def member(name, member_id, instance=None):
    value = compact(instance) + compact(None) + compact("client") + compact("/127.0.0.1")
    value += b"\2" + compact("orders") + compact("") + struct.pack(">i", 1000) + compact(None)
    return key(5, name, member_id), VERSION + value + NO_TAGS


def share_member(name, member_id):
    value = compact(None) + compact("client") + compact("/127.0.0.1") + b"\2" + compact("orders")
    return key(10, name, member_id), VERSION + value + NO_TAGS


def streams_member(name, member_id):
    value = compact(None) + compact(None) + compact("client") + compact("/127.0.0.1")
    value += struct.pack(">ii", 1000, 0) + compact("process") + b"\xff" + b"\1"
    return key(19, name, member_id), VERSION + value + NO_TAGS


def topics(*partitions):
    numbers = b"".join(struct.pack(">i", number) for number in partitions)
    return b"\2" + ORDERS + bytes([len(partitions) + 1]) + numbers + NO_TAGS


def current(name, member_id, number, *partitions, state=0):
    head = struct.pack(">iib", number, number - 1, state)
    return key(8, name, member_id), VERSION + head + topics(*partitions) + b"\1" + NO_TAGS


def share_current(name, member_id, number, *partitions):
    head = struct.pack(">iib", number, number - 1, 0)
    return key(14, name, member_id), VERSION + head + topics(*partitions) + NO_TAGS


def gone(record):
    return record[0], None
