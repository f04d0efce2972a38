"""The settings of logs, `log.*`: a part of the table of settings (see table.py).

Most are the defaults of topic configs: see topics/configs.py.
"""

from dataclasses import dataclass

from groupkeeper.settings.setting import LONG_MAX, boolean, choice, ratio, unlimited, whole, words
from groupkeeper.settings.tls_settings import TlsSettings

CLEANUP_POLICIES = ("compact", "delete")
"""Possible values in a topic's cleanup.policy."""

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
"""Possible values of a topic's message.timestamp.type."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)  # only the table is made
class LogSettings(TlsSettings):
    """Times are in the unit that the name ends with, sizes in bytes."""

    log_cleaner_backoff_ms: int = whole(
        15_000, "How long the cleaner waits when no log needs compaction.", high=LONG_MAX
    )
    log_cleaner_dedupe_buffer_size: int = whole(
        134_217_728,
        "Maximum memory for the keys of one compaction; a log with more keys needs several.",
        low=1_048_576,
        high=LONG_MAX,
    )
    log_cleaner_delete_retention_ms: int = whole(
        86_400_000,
        "How long compaction keeps the tombstone of a deleted key, so that readers see it.",
        high=LONG_MAX,
    )
    log_cleaner_enable: bool = boolean(
        True, "Compact `__consumer_offsets` and topics whose cleanup.policy has `compact`."
    )
    log_cleaner_max_compaction_lag_ms: int = whole(
        LONG_MAX, "The longest time that a record waits for compaction.", low=1, high=LONG_MAX
    )
    log_cleaner_min_cleanable_ratio: float = ratio(
        0.5, "The fraction of a log that has to be uncompacted before it is compacted."
    )
    log_cleaner_min_compaction_lag_ms: int = whole(
        0, "The shortest time that a record is kept from compaction.", high=LONG_MAX
    )
    log_cleanup_policy: str = words(
        "delete",
        CLEANUP_POLICIES,
        "What happens to old records of a topic: `delete` applies retention, `compact` keeps the "
        "newest of each key.",
    )
    log_index_interval_bytes: int = whole(
        4_096, "How many bytes of a log share one entry of its offset index."
    )
    log_index_size_max_bytes: int = whole(
        10_485_760, "Size of an index at which a log begins a new segment.", low=4
    )
    log_message_timestamp_after_max_ms: int = whole(
        3_600_000, "How far ahead of this server's time a record's timestamp may be.", high=LONG_MAX
    )
    log_message_timestamp_before_max_ms: int = whole(
        LONG_MAX, "How far behind this server's time a record's timestamp may be.", high=LONG_MAX
    )
    log_message_timestamp_type: str = choice(
        CREATE_TIME,
        (CREATE_TIME, LOG_APPEND_TIME),
        "Whether records keep the timestamps of their producer, or get the time of their append.",
    )
    log_retention_bytes: int = unlimited(
        -1,
        "Size of a topic partition beyond which its oldest segments are deleted; -1 for no limit.",
    )
    log_retention_check_interval_ms: int = whole(
        300_000,
        "How often topics are searched for segments to delete; the first time this long after the "
        "start.",
        low=1,
        high=LONG_MAX,
    )
    log_retention_hours: int = whole(
        168,
        "Age at which segments of topics are deleted; -1 for no limit. `log.retention.minutes` and "
        "`log.retention.ms` come first.",
        low=-1,
    )
    log_retention_minutes: int | None = whole(
        None, "As `log.retention.hours`, in minutes. `log.retention.ms` comes first.", low=-1
    )
    log_retention_ms: int | None = whole(
        None, "As `log.retention.hours`, in milliseconds.", low=-1, high=LONG_MAX
    )
    log_roll_hours: int = whole(
        168,
        "Age at which a log begins a new segment file, also one of `__consumer_offsets`. "
        "`log.roll.ms` comes first.",
        low=1,
    )
    log_roll_ms: int | None = whole(
        None, "As `log.roll.hours`, in milliseconds.", low=1, high=LONG_MAX
    )
    log_segment_bytes: int = whole(
        1_073_741_824, "Size at which a topic partition begins a new segment file.", low=14
    )

    @property
    def log_retention_time_ms(self) -> int:
        """The retention from the three settings, in milliseconds; -1 for no limit."""
        ms = self.log_retention_ms
        if ms is None and self.log_retention_minutes is not None:
            ms = self.log_retention_minutes * 60_000
        if ms is None:
            ms = self.log_retention_hours * 3_600_000
        return max(ms, -1)

    @property
    def log_roll_time_ms(self) -> int:
        """The age from the two settings, in milliseconds."""
        return self.log_roll_hours * 3_600_000 if self.log_roll_ms is None else self.log_roll_ms
