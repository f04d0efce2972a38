"""How a topic's logs are kept: its configs in effect, as typed values.

They are read by the cleaner, retention and the logs themselves; effective_configs.py determines the
values in effect. Source: Kafka's `LogConfig`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groupkeeper.settings.log_settings import LOG_APPEND_TIME
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics.timestamps import TimestampRules

CLEANUP_POLICY: Final = "cleanup.policy"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
_COMPACT: Final = "compact"
_DELETE: Final = "delete"


@dataclass(slots=True, frozen=True)
class LogPolicy:
    """The policy for the logs of a topic. Times are in milliseconds."""

    compacts: bool
    """cleanup.policy has `compact`."""
    deletes: bool
    """cleanup.policy has `delete`: retention applies, and DeleteRecords is allowed."""
    retention_ms: int
    """Negative for no limit, like `retention_bytes`."""
    retention_bytes: int
    limits: Limits
    """When segments roll; compacted ones also after max.compaction.lag.ms."""
    delete_retention_ms: int
    min_lag_ms: int
    """min.compaction.lag.ms"""
    max_lag_ms: int
    """max.compaction.lag.ms"""
    min_dirty_ratio: float
    """min.cleanable.dirty.ratio"""
    timestamps: TimestampRules = field(default_factory=TimestampRules)
    """Which timestamps produced records may have, and which are stored."""

    @property
    def expires(self) -> bool:
        """Whether retention may delete anything."""
        return self.deletes and (self.retention_ms >= 0 or self.retention_bytes >= 0)


class KnownPolicy(NamedTuple):
    """A topic's policy, and the configs of the topic that it was read from."""

    configs: Mapping[str, str]
    policy: LogPolicy


def read_policy(own: Mapping[str, str], inherited: Mapping[str, str]) -> LogPolicy:
    """Return the policy of a topic; `inherited` has values for all configs that `own` may lack."""
    values = {**inherited, **own}

    def number(name: str) -> int:
        return int(values[name])

    words = values[CLEANUP_POLICY].split(",")
    policies = [word.strip() for word in words]
    compacts = _COMPACT in policies
    segment_ms, max_lag_ms = number("segment.ms"), number("max.compaction.lag.ms")
    return LogPolicy(
        compacts=compacts,
        deletes=_DELETE in policies,
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        limits=Limits(
            segment_bytes=number("segment.bytes"),
            segment_ms=min(segment_ms, max_lag_ms) if compacts else segment_ms,
            index_interval_bytes=number("index.interval.bytes"),
            index_bytes=number("segment.index.bytes"),
        ),
        delete_retention_ms=number("delete.retention.ms"),
        min_lag_ms=number("min.compaction.lag.ms"),
        max_lag_ms=max_lag_ms,
        min_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
        timestamps=TimestampRules(
            values[TIMESTAMP_TYPE] == LOG_APPEND_TIME,
            number("message.timestamp.before.max.ms"),
            number("message.timestamp.after.max.ms"),
        ),
    )
