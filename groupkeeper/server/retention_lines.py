"""Log lines about retention."""

from collections.abc import Sequence
from typing import Final

from groupkeeper.observe.logs import Logger
from groupkeeper.topics.retention import RetentionListener, SegmentsDeleted

NAMED: Final = 20
"""How many topics the line names whose records will be deleted."""

_log = Logger("topics")


class RetentionLines(RetentionListener):
    """Writes them."""

    def deleted(self, what: SegmentsDeleted) -> None:
        _log.info(
            "topics: segments deleted",
            partition=what.partition,
            segments=what.segments,
            bytes=what.size_bytes,
            start_offset=what.start_offset,
        )

    def will_delete(self, topics: Sequence[str], seconds: float) -> None:
        more = ", ..." if len(topics) > NAMED else ""
        _log.warning(
            "topics: records will be deleted",
            count=len(topics),
            topics=", ".join(topics[:NAMED]) + more,
            seconds=round(seconds),
            why="retention.ms and retention.bytes act from this release on",
            to_keep="set retention.ms=-1 and retention.bytes=-1",
        )

    def kept_for_the_future(self, partitions: Sequence[str], count: int) -> None:
        _log.warning(
            "topics: timestamps in the future",
            count=count,
            partitions=", ".join(partitions) + (", ..." if count > len(partitions) else ""),
            effect="these segments do not expire",
        )

    def failed(self, error: Exception) -> None:
        _log.error("topics: retention failed", exc_info=error)
