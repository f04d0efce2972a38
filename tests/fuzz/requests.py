"""Requests for the fuzzer: every API of the registry in every version, filled in with sense.

A field is filled by its name: a `group_id` is the person's group, a `generation_id` the
generation it was told, and now and then any value that fits. So an API that is added to the
registry is fuzzed without a line here. Not the bytes, and not their mutations.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.message import Field, fields_in
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.produce import PartitionProduceData
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType
from tests.fuzz.town import JOINED, OUT, STABLE, WAITING, Person, Town
from tests.support.codecs import encode_subscription
from tests.support.messages import RANGES
from tests.topics.scene import COMPRESSIONS, batch

STRANGE = ["", "\0", "größe", "日本語", "a b", "..", "x" * 249, "x" * 300, "y" * 32_767]
WORDS = ["", "why", "a reason", "z" * 100]
PROTOCOLS = ["range", "roundrobin", "sticky"]
CONFIGS = ["cleanup.policy", "retention.ms", "max.message.bytes", "segment.bytes", "nonsense"]
VALUES = ["delete", "compact", "1000", "-1", "", "x", "9999999999999999999"]
STATES = ["Stable", "Empty", "PreparingRebalance", "completingrebalance", "Dead", "classic"]
TEXT_CHOICES: Mapping[str, Sequence[str]] = {
    "protocol_type": ["consumer"] * 60 + ["connect", ""],
    "protocol_name": ["range"] * 8 + PROTOCOLS,
    "states_filter": STATES,
    "types_filter": ["classic", "Consumer", "share", ""],
}
CHOICES: Mapping[str, Sequence[int]] = {
    "session_timeout_ms": [6_000, 10_000, 30_000, 30_000, 600_000, 600_000],
    "rebalance_timeout_ms": [1_000, 5_000, *[60_000] * 6, 300_000, 300_000, -1, 0x7FFFFFFF],
    "retention_time_ms": [-1, -1, 0, 1_000, 86_400_000, 0x7FFFFFFFFFFFFFFF],
    "max_wait_ms": [0, 1, 100, 500, 30_000],
    "min_bytes": [0, 1, 1, 100, 1 << 20],
    "max_bytes": [0, 1, 1_000, 1 << 20, 0x7FFFFFFF],
    "partition_max_bytes": [0, 1, 1_000, 1 << 20, 0x7FFFFFFF],
    "num_partitions": [-1, 1, 1, 2, 3, 6, 0, 50],
    "count": [1, 2, 3, 6, 7, 0, -1],
    "replication_factor": [1, 1, 1, -1, 3, 0],
    "timeout_ms": [0, 1_000, 30_000, -1],
    "acks": [-1, 1, 1, 0],
    "session_epoch": [-1, -1, 0, 1],
    "session_id": [0, 0, 1],
    "replica_id": [-1],
    "current_leader_epoch": [-1, -1, 0, 1],
    "timestamp": [-1, -2, -3, -4, -5, 0, 1_700_000_000_000],
    "resource_type": [2, 2, 4, 8, 32, 0],
    "key_type": [0, 0, 0, 1, 2],
}
PLACES = {"partition_index", "partition_indexes", "partition", "partitions", "index"}
OFFSETS = {"committed_offset", "fetch_offset", "offset", "log_start_offset"}
OFTEN_EMPTY = {"assignments": 0.85, "configs": 0.6, "forgotten_topics_data": 0.7}

# API keys by what somebody in that phase mostly sends next.
NEXT = {
    OUT: (ApiKey.JOIN_GROUP,),
    WAITING: (
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA),
        *(ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS),
    ),
    JOINED: (ApiKey.SYNC_GROUP,),
    STABLE: (
        *(ApiKey.HEARTBEAT, ApiKey.HEARTBEAT, ApiKey.HEARTBEAT),
        *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT),
        *(ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.PRODUCE),
    ),
}


def next_key(chance: Random, person: Person, served: Sequence[int]) -> int:
    """The API that the person uses now: mostly what follows, often any."""
    likely = [key for key in NEXT[person.phase] if key in served]
    share = 0.85 if person.phase == JOINED else 0.55
    return chance.choice(likely) if likely and chance.random() < share else chance.choice(served)


def next_version(chance: Random, person: Person, key: int) -> int:
    oldest, newest = APIS[key].served
    if key == ApiKey.JOIN_GROUP and person.instance_id is not None and chance.random() < 0.7:
        oldest = 5
    return chance.randint(oldest, newest)


class Maker:
    """Makes one request for one person."""

    def __init__(self, chance: Random, town: Town, person: Person, version: int) -> None:
        self.chance = chance
        self.town = town
        self.person = person
        self.version = version

    def message(self, cls: type, depth: int = 0) -> Any:
        chance = self.chance
        plain, tagged = fields_in(cls, self.version)
        fields = plain + [field for field in tagged if chance.random() < 0.1]
        made = cls(**{field.name: self.field(cls, field, depth) for field in fields})
        if cls is SyncGroupRequest and self.person.plan_for and chance.random() < 0.8:
            made.assignments = [
                SyncGroupRequestAssignment(member_id=who, assignment=self.blob())
                for who in self.person.plan_for
            ]
        if cls is JoinGroupRequest and chance.random() < 0.95:
            made.protocols[1:] = [each for each in made.protocols[1:] if each.name != "range"]
            for protocol in made.protocols[:1]:
                protocol.name = "range"
        return made

    def field(self, cls: type, field: Field, depth: int) -> Any:
        name, chance = field.name, self.chance
        if field.nullable_in(self.version):
            if name == "group_instance_id":
                return self.instance()
            share = {"transactional_id": 0.9, "records": 0.02}.get(name, 0.25)
            if chance.random() < share:
                return None
        return self.value(cls, name, field.type, depth)

    def value(self, cls: type, name: str, kind: WireType, depth: int) -> Any:
        match kind:
            case Fixed(code="?"):
                return self.chance.random() < 0.5
            case Fixed(code="16s"):
                return self.topic_id()
            case Fixed():
                return self.integer(name, kind.code)
            case Sized(name="records"):
                return self.records(cls)
            case Sized(is_text=True):
                return self.text(cls.__name__, name)
            case Sized():
                return self.metadata() if name == "metadata" else self.blob()
            case ArrayOf():
                many = self.count(name, depth)
                return [self.value(cls, name, kind.item, depth + 1) for _ in range(many)]
            case StructOf():
                return self.message(kind.cls, depth)

    def count(self, name: str, depth: int) -> int:
        chance = self.chance
        if chance.random() < OFTEN_EMPTY.get(name, 0.05):
            return 0
        if chance.random() < 0.01 and depth == 0:
            return 40
        return chance.choice([1, 1, 1, 2, 3])

    # -- what fields hold ------------------------------------------------------------------------

    def integer(self, name: str, code: str) -> int:
        bits = RANGES[code]
        low = 0 if code == "H" else -(1 << (bits - 1))
        high = low + (1 << bits) - 1
        if self.chance.random() < 0.01:
            return self.chance.choice([low, low + 1, -1 if low else 0, 0, 1, high - 1, high])
        return max(low, min(high, self.sensible(name)))

    def sensible(self, name: str) -> int:
        chance, person = self.chance, self.person
        if name in CHOICES:
            return chance.choice(CHOICES[name])
        if name in PLACES:
            return chance.choice([0] * 8 + [1] * 4 + [2, 5, 50, -1])
        if name in OFFSETS:
            return chance.choice([0, 0, 1, 2, 5, 17, 1000, -1, -2, 1 << 40])
        if name.startswith("generation_id"):
            told = person.generation
            return chance.choice([told] * 40 + [told + 1, told - 1, -1, -(2**31), 2**31 - 1])
        if name == "producer_id":
            return person.producer_id
        if name == "producer_epoch":
            return person.producer_epoch
        return chance.choice([0, 0, 0, 1, -1, 2, 7])

    def text(self, struct: str, name: str) -> str:
        chance, town = self.chance, self.town
        if chance.random() < 0.01:
            return chance.choice(STRANGE)
        if name in TEXT_CHOICES:
            return chance.choice(TEXT_CHOICES[name])
        if name in ("group_id", "groups", "groups_names", "key", "coordinator_keys"):
            return self.person.group_id if chance.random() < 0.97 else chance.choice(town.groups)
        if name == "member_id":
            return self.member_id()
        if "Config" in struct and name == "name":
            return chance.choice(CONFIGS)
        if name in ("name", "topic", "topic_names", "resource_name"):
            return chance.choice(town.topics[:3] * 3 + town.topics)
        return chance.choice(VALUES) if name == "value" else chance.choice(WORDS)

    def member_id(self) -> str:
        if self.chance.random() < 0.97:
            return self.person.member_id
        return self.chance.choice([*(p.member_id for p in self.town.people), "nobody"])

    def instance(self) -> str | None:
        if self.chance.random() < 0.97:
            return self.person.instance_id
        return self.chance.choice([*(p.instance_id for p in self.town.people), "", None])

    def topic_id(self) -> bytes:
        known = list(self.town.topic_ids.values())
        if known and self.chance.random() < 0.5:
            return self.chance.choice(known)
        return bytes(16) if self.chance.random() < 0.9 else self.chance.randbytes(16)

    def blob(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([0, 1, 20, 20, 300]))

    def metadata(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.1:
            return self.blob()
        version, topics = chance.randrange(4), chance.sample(self.town.topics, chance.randrange(3))
        owned = [TopicPartition(topic=topic, partitions=[0, 1]) for topic in topics]
        said = Subscription(version=version, topics=topics)
        if version >= 1:
            said.owned_partitions = owned
        return encode_subscription(said)

    def records(self, cls: type) -> bytes:
        """One batch as producers build it; half of them are idempotent (KIP-98)."""
        chance, person = self.chance, self.person
        values = [
            "v" * chance.choice([0, 1, 30, 2_000]) for _ in range(chance.choice([1, 1, 2, 9]))
        ]
        producer = {}
        if person.producer_id >= 0 and chance.random() < 0.7:
            producer = {
                "id": person.producer_id,
                "epoch": max(0, person.producer_epoch),
                "sequence": max(0, person.sequence + chance.choice([0] * 9 + [1, -1])),
            }
            person.sequence += len(values)
        made = batch(
            *values,
            compression=chance.choice([*["none"] * 4, *COMPRESSIONS]),
            timestamp=chance.choice([1_700_000_000_000, 0, -1, 1 << 62]),
            **producer,
        )
        if cls is not PartitionProduceData or chance.random() < 0.9:
            return made
        at = chance.randrange(len(made))
        return made[:at] + bytes([made[at] ^ (1 << chance.randrange(8))]) + made[at + 1 :]
