"""Log lines about retention."""

from groupkeeper.observe.logs import Logger
from groupkeeper.topics.record_deletion import SegmentsDeleted
from groupkeeper.topics.retention import RetentionListener

_log = Logger("topics")


class RetentionLines(RetentionListener):
    """Writes log lines about retention."""

    def deleted(self, what: SegmentsDeleted) -> None:
        size = {"segments": what.segments, "bytes": what.size_bytes}
        where = {"partition": what.partition, "start_offset": what.start_offset}
        _log.info("topics: segments deleted", **where, **size)

    def failed(self, error: Exception) -> None:
        _log.error("topics: retention failed", exc_info=error)
