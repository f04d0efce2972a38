"""DescribeLogDirs: the data directory and the sizes of its logs, without opening any.

Source: Kafka's `ReplicaManager.describeLogDirs`; KIP-113, KIP-827 (bytes of the file system).
"""

import os
from collections.abc import Iterable
from operator import itemgetter

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from groupkeeper.topics.log_positions import Extent, LogName
from groupkeeper.topics.slices import each, visit_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices


class DescribeLogDirsHandler:
    """Answers DescribeLogDirs."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._log_dir = os.path.abspath(topics.positions.data_dir)

    def handle(
        self, request: DescribeLogDirsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Return None and reply later: sizes are looked up on the worker."""
        places = yield from self._places(request)
        self._topics.response_tasks.start(self._described(places), reply_to, _failed)
        return None

    def _places(self, request: DescribeLogDirsRequest) -> Slices[list[LogName]]:
        """Return the requested partitions, each once."""
        places: dict[LogName, None] = {}
        counts = self._topics.catalog.counts
        asked: Iterable[tuple[str, Iterable[int]]]
        if request.topics is None:
            asked = [(name, range(count)) for name, count in counts.items()]
        else:
            asked = [(topic.topic, topic.partitions) for topic in request.topics]
        yield from visit_within(
            asked, itemgetter(1), lambda topic, index: places.setdefault((topic[0], index))
        )
        return list(places)

    async def _described(self, places: list[LogName]) -> Response:
        total, usable = await self._topics.positions.space()
        extents = await self._topics.positions.extents(places)
        topics = await self._topics.response_tasks.turns.run(_by_topic(places, extents))
        result = DescribeLogDirsResult(
            log_dir=self._log_dir, topics=topics, total_bytes=total, usable_bytes=usable
        )
        return DescribeLogDirsResponse(results=[result])


def _by_topic(
    places: Iterable[LogName], extents: dict[LogName, Extent]
) -> Slices[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}

    def add(place: LogName) -> None:
        extent = extents.get(place)
        if extent is not None:
            name, index = place
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=extent.size)
            )

    yield from each(places, add)
    return list(topics.values())


def _failed() -> Response:
    return DescribeLogDirsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
