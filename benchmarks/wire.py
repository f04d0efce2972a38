"""The few requests and answers that the generator speaks, written out by hand, each in one version.

Not Groupkeeper's codec, on purpose: a mistake there must not hide itself by being made on both
sides. Requests come back as `Request`; answers are read from the bytes behind the correlation id.
Layouts are those of Kafka's message definitions.
"""

import struct
from typing import NamedTuple

from groupkeeper.protocol.api_keys import ApiKey

CLIENT_ID = b"groupkeeper-bench"
TOPIC = b"bench"
TOPIC_PARTITIONS = 100
SESSION_MS = 300_000  # setting up many members must not let the first ones expire
REBALANCE_MS = 60_000

# Kafka's error codes that the generator reacts to; every other one than 0 ends the run.
LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
REBALANCE_IN_PROGRESS, TOPIC_ALREADY_EXISTS, MEMBER_ID_REQUIRED = 27, 36, 79
NOT_YET = frozenset({LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})

CORRELATION_AT = 8  # where a request frame holds its correlation id
OFFSET_AT, COMMITTED_BYTES = 4, 18  # inside one partition of an OffsetCommit, and its whole size

_HEAD = struct.Struct(">ihhih")
_INT = struct.Struct(">i")
_GROUP_TIMES = struct.Struct(">ii")


class WrongAnswerError(Exception):
    """An answer that must not be: an error code, or bytes that cannot be read."""


class Request(NamedTuple):
    """A request before it has a correlation id. `flexible`: header v2, and tags behind the answer's
    id.
    """

    key: int
    version: int
    body: bytes
    flexible: bool = True


def frame(request: Request, correlation_id: int) -> bytes:
    """The whole request as it goes to the socket, size included."""
    size = 10 + len(CLIENT_ID) + request.flexible + len(request.body)
    head = _HEAD.pack(size, request.key, request.version, correlation_id, len(CLIENT_ID))
    return head + CLIENT_ID + (b"\0" if request.flexible else b"") + request.body


def unsigned(value: int) -> bytes:
    """An unsigned varint."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def compact(value: bytes | None) -> bytes:
    """A compact string or compact bytes, null included."""
    return b"\0" if value is None else unsigned(len(value) + 1) + value


# ------------------------------------------------------------ requests


def api_versions() -> Request:
    return Request(ApiKey.API_VERSIONS, 0, b"", flexible=False)


def find_coordinator(group: bytes) -> Request:
    return Request(ApiKey.FIND_COORDINATOR, 3, compact(group) + b"\0\0")


def create_topic(name: bytes, partitions: int) -> Request:
    topic = compact(name) + struct.pack(">ihBBB", partitions, 1, 1, 1, 0)
    return Request(
        ApiKey.CREATE_TOPICS, 5, b"\2" + topic + struct.pack(">i??", 30_000, False, False)
    )


def join_group(group: bytes, member: bytes, instance: bytes | None, version: int = 7) -> Request:
    """v7, or v9 with a reason of null, the one that may be told to keep its assignment."""
    protocol = b"\2" + compact(b"range") + compact(METADATA) + b"\0"
    times = _GROUP_TIMES.pack(SESSION_MS, REBALANCE_MS)
    who = compact(group) + times + compact(member) + compact(instance)
    end = b"\0\0" if version >= 8 else b"\0"
    return Request(ApiKey.JOIN_GROUP, version, who + compact(b"consumer") + protocol + end)


def sync_group(
    who: tuple[bytes, int, bytes, bytes | None], plan: list[tuple[bytes, bytes]] | None = None
) -> Request:
    """SyncGroup v5 of (group, generation, member, instance); the leader's carries the plan."""
    group, generation, member, instance = who
    parts = [
        compact(group),
        _INT.pack(generation),
        compact(member),
        compact(instance),
        _CONSUMER_RANGE,
    ]
    parts.append(unsigned(len(plan or ()) + 1))
    for other, assignment in plan or ():
        parts += (compact(other), compact(assignment), b"\0")
    parts.append(b"\0")
    return Request(ApiKey.SYNC_GROUP, 5, b"".join(parts))


def heartbeat(group: bytes, generation: int, member: bytes, instance: bytes | None) -> Request:
    return Request(
        ApiKey.HEARTBEAT,
        4,
        compact(group) + _INT.pack(generation) + compact(member) + compact(instance) + b"\0",
    )


def leave_group(group: bytes, members: list[tuple[bytes, bytes | None]]) -> Request:
    listed = b"".join(compact(member) + compact(instance) + b"\0" for member, instance in members)
    return Request(
        ApiKey.LEAVE_GROUP, 4, compact(group) + unsigned(len(members) + 1) + listed + b"\0"
    )


def offset_commit(group: bytes, generation: int, member: bytes, partitions: int) -> Request:
    """OffsetCommit v8 of partitions 0.. of the topic; the offsets, all 0, are written over by the
    hot loop.

    The body ends with the partitions, COMMITTED_BYTES each, and two bytes of tags.
    """
    who = compact(group) + _INT.pack(generation) + compact(member) + compact(None)
    listed = b"".join(
        struct.pack(">iqiBB", partition, 0, -1, 0, 0) for partition in range(partitions)
    )
    topic = b"\2" + compact(TOPIC) + unsigned(partitions + 1) + listed
    return Request(ApiKey.OFFSET_COMMIT, 8, who + topic + b"\0\0")


def offset_fetch(group: bytes, partitions: int) -> Request:
    listed = b"".join(map(_INT.pack, range(partitions)))
    topic = b"\2" + compact(TOPIC) + unsigned(partitions + 1) + listed + b"\0"
    return Request(ApiKey.OFFSET_FETCH, 7, compact(group) + topic + b"\0\0")


# ------------------------------------------------------------ what a hot loop expects


def answer_frame(body: bytes) -> bytes:
    """A whole answer with correlation id 0 and response header v1."""
    return _INT.pack(5 + len(body)) + bytes(5) + body


def heartbeat_answer() -> bytes:
    return answer_frame(bytes(7))  # throttle time, error code, tags


def offset_commit_answer(partitions: int) -> bytes:
    listed = b"".join(struct.pack(">ihB", partition, 0, 0) for partition in range(partitions))
    return answer_frame(
        bytes(4) + b"\2" + compact(TOPIC) + unsigned(partitions + 1) + listed + b"\0\0"
    )


# ------------------------------------------------------------ answers


class Answer:
    """A cursor over one answer, behind the correlation id."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, flexible: bool = True) -> None:
        self.data = data
        self.at = 0
        if flexible and self.unsigned() != 0:
            raise WrongAnswerError("tags in a response header")

    def number(self, size: int) -> int:
        """A signed big-endian number of so many bytes."""
        self.at += size
        if self.at > len(self.data):
            raise WrongAnswerError("an answer ends early")
        return int.from_bytes(self.data[self.at - size : self.at], "big", signed=True)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1) & 255
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def compact(self) -> bytes | None:
        size = self.unsigned() - 1
        if size < 0:
            return None
        self.at += size
        if self.at > len(self.data):
            raise WrongAnswerError("an answer ends early")
        return self.data[self.at - size : self.at]


class Joined(NamedTuple):
    """A JoinGroup answer. `members`: ids, for the leader only. `skip`: keep the assignment
    (KIP-814).
    """

    error: int
    generation: int
    leads: bool
    skip: bool
    member: bytes
    members: list[bytes]


def joined(body: bytes, version: int = 7) -> Joined:
    answer = Answer(body)
    answer.number(4)
    error, generation = answer.number(2), answer.number(4)
    answer.compact(), answer.compact()
    leader = answer.compact()
    skip = version >= 9 and answer.number(1) == 1
    member = answer.compact() or b""
    members = []
    for _ in range(answer.unsigned() - 1):
        members.append(answer.compact() or b"")
        answer.compact(), answer.compact(), answer.unsigned()
    return Joined(error, generation, leader == member and bool(members), skip, member, members)


def synced(body: bytes) -> tuple[int, bytes]:
    """Error code and assignment of a SyncGroup answer."""
    answer = Answer(body)
    answer.number(4)
    error = answer.number(2)
    answer.compact(), answer.compact()
    return error, answer.compact() or b""


def beaten(body: bytes) -> int:
    """Error code of a Heartbeat answer."""
    answer = Answer(body)
    answer.number(4)
    return answer.number(2)


def left(body: bytes) -> int:
    """The first error code of a LeaveGroup answer, of the whole or of a member."""
    answer = Answer(body)
    answer.number(4)
    error = answer.number(2)
    for _ in range(answer.unsigned() - 1):
        answer.compact(), answer.compact()
        error = error or answer.number(2)
        answer.unsigned()
    return error


def found(body: bytes) -> int:
    """Error code of a FindCoordinator answer."""
    answer = Answer(body)
    answer.number(4)
    return answer.number(2)


def created(body: bytes) -> int:
    """Error code of a CreateTopics answer of one topic."""
    answer = Answer(body)
    answer.number(4), answer.unsigned(), answer.compact()
    return answer.number(2)


def offered(body: bytes) -> dict[int, tuple[int, int]]:
    """API key -> (first version, last version) of an ApiVersions answer."""
    answer = Answer(body, flexible=False)
    error = answer.number(2)
    if error:
        raise WrongAnswerError(f"ApiVersions: error {error}")
    rows = answer.number(4)
    return {answer.number(2): (answer.number(2), answer.number(2)) for _ in range(rows)}


def fetched(body: bytes) -> tuple[int, dict[int, int]]:
    """The first error code of an OffsetFetch answer, and partition -> committed offset."""
    answer = Answer(body)
    answer.number(4)
    offsets: dict[int, int] = {}
    error = 0
    for _ in range(answer.unsigned() - 1):
        answer.compact()
        for _ in range(answer.unsigned() - 1):
            partition, offsets[partition] = answer.number(4), answer.number(8)
            answer.number(4), answer.compact()
            error = error or answer.number(2)
            answer.unsigned()
        answer.unsigned()
    return answer.number(2) or error, offsets


# ------------------------------------------------------------ what opaque bytes hold


def _subscription(size: int) -> bytes:
    """A ConsumerProtocolSubscription v1 of exactly so many bytes, filled up with user data."""
    topics = struct.pack(">hih", 1, 1, len(TOPIC)) + TOPIC
    padding = size - len(topics) - 8
    return topics + _INT.pack(padding) + bytes(padding) + _INT.pack(0)


def assignment(partition: int) -> bytes:
    """A ConsumerProtocolAssignment v1 of one partition of the topic."""
    topic = struct.pack(">h", len(TOPIC)) + TOPIC
    return struct.pack(">hi", 1, 1) + topic + struct.pack(">iii", 1, partition, -1)


METADATA = _subscription(300)
_CONSUMER_RANGE = compact(b"consumer") + compact(b"range")
