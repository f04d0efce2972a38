"""Documentation of each topic config, for DescribeConfigs.

Imported only when a client requests it.
"""

from typing import Final

from groupkeeper.topics.configs import MAX_MESSAGE_BYTES

NO_EFFECT: Final = "Stored and described, without effect on this server."
"""Documentation of all configs that are not in `DOCUMENTATION`."""

DOCUMENTATION: Final = {
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
