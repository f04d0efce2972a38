"""Topic configs: which names Kafka knows, and the one that changes what the data plane does.

Not the server's settings. Every known config is kept and given back; only ``max.message.bytes``
acts.
Source: Kafka's ``TopicConfig``.
"""

from collections.abc import Mapping
from typing import Final

MAX_MESSAGE_BYTES: Final = "max.message.bytes"

KNOWN: Final = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)


def complaint(configs: Mapping[str, str | None]) -> str | None:
    """What is wrong with the configs of a topic to be created, or None."""
    for name, value in configs.items():
        if name not in KNOWN:
            return f"Unknown topic config name: {name}"
        if value is None:
            return f"Null value not supported for topic configs: {name}"
    limit = configs.get(MAX_MESSAGE_BYTES)
    if limit is not None and not (limit.isascii() and limit.isdigit() and len(limit) < 11):
        return f"Invalid value {limit} for configuration {MAX_MESSAGE_BYTES}: must be a number"
    return None
