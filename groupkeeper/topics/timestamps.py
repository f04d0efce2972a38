"""Timestamps of produced records: which are valid, and which are stored.

If the header of a batch says that no record is too far ahead, it is trusted; records are read only
if the header is suspicious, or the topic limits how old records may be (record_check.py).
Source: KIP-32, KIP-937; Kafka's `LogValidator.validateTimestamp`.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from groupkeeper.protocol.record_batch import BatchHeader
from groupkeeper.protocol.restamp import restamped

NO_TIMESTAMP: Final = -1
"""The timestamp of messages without one."""

NO_LIMIT: Final = 2**63 - 1

_LOG_APPEND_TIME: Final = 0x08
_TIMES: Final = Struct(">21xh12xq")
"""Attributes and largest timestamp of a batch."""


@dataclass(slots=True, frozen=True)
class TimestampRules:
    """The configs message.timestamp.* of a topic. Times are in milliseconds."""

    log_append_time: bool = False
    """message.timestamp.type is LogAppendTime: records get their append time, without limits."""
    before_max_ms: int = NO_LIMIT
    after_max_ms: int = 3_600_000

    def expected(self, records: bytes | memoryview | None, now: int) -> tuple[int, bool]:
        """Return the largest timestamp to store for an unchecked batch, and whether it is in doubt.

        If in doubt, its records have to be read to validate their timestamps. `now` is in Unix
        milliseconds.
        """
        if records is None or len(records) < _TIMES.size:
            return NO_TIMESTAMP, False
        attributes, largest = _TIMES.unpack_from(records)
        in_doubt = bool(attributes & _LOG_APPEND_TIME)
        if self.log_append_time:
            return now, in_doubt
        if largest > now + self.after_max_ms or self.before_max_ms != NO_LIMIT:
            in_doubt = True
        return largest, in_doubt

    def fault(self, header: BatchHeader, offset: int, timestamp: int, now: int) -> str | None:
        """Describe the fault in the timestamp of one record of a batch, or return None."""
        if not self.log_append_time and timestamp != NO_TIMESTAMP:
            earliest, latest = now - self.before_max_ms, now + self.after_max_ms
            if earliest <= timestamp <= latest:
                return None
            return (
                f"Timestamp {timestamp} of message with offset {offset} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
        if header.is_log_append_time:
            return (
                f"Invalid timestamp type in message with offset {offset}. "
                "Producer should not set timestamp type to LogAppendTime."
            )
        return None

    def must_stamp(self, header: BatchHeader) -> bool:
        """Return whether a batch is stored differently from how it was sent: see `stamped`."""
        return self.log_append_time or bool(header.attributes & _LOG_APPEND_TIME)

    def stamped(
        self, records: bytes | memoryview, header: BatchHeader, now: int
    ) -> tuple[bytes, BatchHeader]:
        """Return a checked batch with true `must_stamp` in its stored form, and its header."""
        largest = now if self.log_append_time else header.max_timestamp
        return restamped(records, header, largest, log_append_time=self.log_append_time)
