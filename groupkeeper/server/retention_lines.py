"""Log lines about topics: retention, and failures."""

from groupkeeper.observe.logs import Logger
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.limits import OverLimitError
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


def topics_failed(where: str, error: BaseException) -> None:
    """Log a failing disk or a reached limit in one line, a bug with its traceback."""
    if isinstance(error, OverLimitError):
        _log.warning("topics: limit reached", where=where, limit=str(error))
    elif isinstance(error, OSError | StorageError):
        _log.error("topics: disk failed", where=where, error=str(error))
    else:
        _log.error("topics: request failed", where=where, exc_info=error)
