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
    "file.delete.delay.ms": "how long a segment that was deleted stays on the disk.",
    "flush.messages": "after how many messages the log is synced.",
    "flush.ms": "after how much time the log is synced.",
    "follower.replication.throttled.replicas": "followers whose replication is throttled.",
    "leader.replication.throttled.replicas": "leaders whose replication is throttled.",
    "local.retention.bytes": "how much stays on the local disk; -2 follows retention.bytes.",
    "local.retention.ms": "how long data stays on the local disk; -2 follows retention.ms.",
    "min.insync.replicas": "how many replicas must have a message that acks=all confirms.",
    "preallocate": "whether the file of a new segment gets its whole size at once.",
    "remote.log.copy.disable": "whether copying to tiered storage stops.",
    "remote.log.delete.on.disable": "whether leaving tiered storage deletes what is in it.",
    "remote.storage.enable": "whether the topic uses tiered storage.",
    "segment.jitter.ms": "the largest random part that is taken from segment.ms.",
    "unclean.leader.election.enable": "whether a replica that is behind may lead.",
}

_HERE: Final = {
    "cleanup.policy": "What happens to old messages: 'delete' applies retention.ms and "
    "retention.bytes, 'compact' keeps the newest message of each key. With 'compact', messages "
    "need keys; without 'delete', DeleteRecords is refused.",
    "delete.retention.ms": "How long tombstones stay in a compacted topic.",
    "index.interval.bytes": "How many bytes of log share one entry of the offset index; from the "
    "next segment on.",
    "max.compaction.lag.ms": "The longest time that a message of a compacted topic waits for "
    "compaction; segments roll at this age, too.",
    MAX_MESSAGE_BYTES: "The largest record batch that a producer may send, compressed or not.",
    "message.timestamp.after.max.ms": "How far ahead of the broker's time the timestamp of a "
    "message may be; of no effect with LogAppendTime.",
    "message.timestamp.before.max.ms": "How far behind the broker's time the timestamp of a "
    "message may be; of no effect with LogAppendTime.",
    "message.timestamp.type": "Whether messages carry the producer's time (CreateTime) or the "
    "broker's (LogAppendTime).",
    "min.cleanable.dirty.ratio": "The share of finished segments that is not compacted yet beyond "
    "which a compacted topic is compacted.",
    "min.compaction.lag.ms": "The shortest time that a message is safe from compaction.",
    "retention.bytes": "The size of a partition that its youngest segments must have before the "
    "oldest one is deleted; -1: no limit.",
    "retention.ms": "The age at which segments are deleted, by their largest timestamp; -1: no "
    "limit.",
    "segment.bytes": "The size at which a partition begins a new segment file.",
    "segment.index.bytes": "The size of an index at which a partition begins a new segment file.",
    "segment.ms": "The age at which a partition begins a new segment file: between the timestamps "
    "of its first batch and the next one.",
}

DOCUMENTATION: Final[Mapping[str, str]] = {
    **{name: NO_EFFECT + text for name, text in _ON_A_BROKER.items()},
    **_HERE,
}
