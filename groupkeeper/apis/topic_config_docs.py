"""Documentation of each topic config, for DescribeConfigs.

Imported only when a client asks for it. Configs without effect here begin with `NO_EFFECT`; their
sentences describe what a Kafka broker does with the value.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.topics.configs import MAX_MESSAGE_BYTES

NO_EFFECT: Final = "Stored and described, without effect on this server. On a Kafka broker: "

_ON_A_BROKER: Final = {
    "compression.gzip.level": "the level for gzip, where the broker compresses.",
    "compression.lz4.level": "the level for lz4, where the broker compresses.",
    "compression.type": "the codec of the log; 'producer' keeps what the producer chose.",
    "compression.zstd.level": "the level for zstd, where the broker compresses.",
    "delete.retention.ms": "how long tombstones stay in a compacted topic.",
    "file.delete.delay.ms": "how long a segment that was deleted stays on the disk.",
    "flush.messages": "after how many messages the log is synced.",
    "flush.ms": "after how much time the log is synced.",
    "follower.replication.throttled.replicas": "followers whose replication is throttled.",
    "index.interval.bytes": "how many bytes of log share one entry of the offset index.",
    "leader.replication.throttled.replicas": "leaders whose replication is throttled.",
    "local.retention.bytes": "how much stays on the local disk; -2 follows retention.bytes.",
    "local.retention.ms": "how long data stays on the local disk; -2 follows retention.ms.",
    "max.compaction.lag.ms": "the longest time a message waits for compaction.",
    "message.timestamp.after.max.ms": "how far ahead of the broker a timestamp may be.",
    "message.timestamp.before.max.ms": "how far behind the broker a timestamp may be.",
    "message.timestamp.type": "whether messages carry the producer's time or the broker's.",
    "min.cleanable.dirty.ratio": "the share of a log that is dirty before it is compacted.",
    "min.compaction.lag.ms": "the shortest time a message is safe from compaction.",
    "min.insync.replicas": "how many replicas must have a message that acks=all confirms.",
    "preallocate": "whether the file of a new segment gets its whole size at once.",
    "remote.log.copy.disable": "whether copying to tiered storage stops.",
    "remote.log.delete.on.disable": "whether leaving tiered storage deletes what is in it.",
    "remote.storage.enable": "whether the topic uses tiered storage.",
    "retention.bytes": "the size of a partition beyond which old segments go; -1: no limit.",
    "retention.ms": "the age at which old segments go; -1: never.",
    "segment.bytes": "the size at which a partition begins a new segment file.",
    "segment.index.bytes": "the size of the index of offsets to file positions.",
    "segment.jitter.ms": "the largest random part that is taken from segment.ms.",
    "segment.ms": "the age at which a partition begins a new segment file.",
    "unclean.leader.election.enable": "whether a replica that is behind may lead.",
}

DOCUMENTATION: Final[Mapping[str, str]] = {
    **{name: NO_EFFECT + text for name, text in _ON_A_BROKER.items()},
    "cleanup.policy": "With `compact` alone, DeleteRecords is refused. Nothing is compacted here.",
    MAX_MESSAGE_BYTES: "The largest record batch that a producer may send, compressed or not.",
}
