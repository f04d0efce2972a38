"""Short cut of Produce for the most frequent request: one batch for one partition, which can be
appended unchanged and at once.

All other requests, and all errors, are handled by produce.py.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from groupkeeper.apis.produce_answers import (
    AppendAnswers,
    failed_response,
    response_of,
    topic_answer,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.topics.appender import Appends, PendingAppend
from groupkeeper.topics.batches import check_batch
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.refusals import Refused
from groupkeeper.topics.topics import Topics

FIRST_VERSION: Final = 3
"""Older versions are advertised for old librdkafka, but their record formats are refused."""

BY_ID_SINCE: Final = 13
"""From this version on, topics are given by id (KIP-516)."""

Run = list[tuple[ProduceRequest, PendingAppend, ReplyTo]]
"""Requests that are appended together, with their appends and reply tokens."""


class PlainProduce:
    """Handles the requests that need nothing but an append."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = topics.partitions
        self._topics_by_id: Mapping[bytes, Topic] = topics.catalog.by_id
        self._message_max_bytes = topics.settings.message_max_bytes
        self._wall_ms = topics.wall_ms
        self._appender = topics.appender
        self._response_tasks = topics.response_tasks
        self._answer = AppendAnswers(topics)

    def handle_run(
        self, asked: Iterable[tuple[ProduceRequest, Caller, ReplyTo]]
    ) -> list[Response | None]:
        """Append the batches of the first requests together. Implements `ProduceRun`."""
        appends, run = Appends(), Run()
        for request, caller, reply_to in asked:
            append = self.append_of(request, caller.api_version, appends)
            if append is None:
                break
            run.append((request, append, reply_to))
        self._appender.start([append for _, append, _ in run])
        if appends.done:
            return [self.response_of(request, append) for request, append, _ in run]
        work, failed = self._answer_run(appends, run), partial(_fail_run, run)
        self._response_tasks.start(work, run[-1][2], failed)
        return [None] * len(run)

    async def _answer_run(self, appends: Appends, run: Run) -> Response:
        """Wait for the appends, then answer as `_answer` does."""
        await appends.wait()
        return _answer([self.response_of(request, append) for request, append, _ in run], run)

    def response_of(self, request: ProduceRequest, append: PendingAppend) -> Response:
        """Make the response to a request whose only append is done."""
        return response_of(request, [topic_answer(request.topic_data[0], [self._answer(append)])])

    def append_of(
        self, request: ProduceRequest, api_version: int, appends: Appends
    ) -> PendingAppend | None:
        """Check the only batch and return its append; None if produce.py handles the request."""
        if not _has_one(request, api_version):
            return None
        topic = request.topic_data[0]
        data, name = topic.partition_data[0], topic.name
        if api_version >= BY_ID_SINCE:
            known = self._topics_by_id.get(topic.topic_id)
            name = known.name if known is not None else ""
        partition, records = self._partitions.find(name, data.index), data.records
        if partition is None or name in RESERVED or records is None:
            return None
        limit = partition.topic.max_message_bytes
        if limit is None:
            limit = self._message_max_bytes
        if len(records) > limit or not self._may_append(partition, records):
            return None
        try:
            header = check_batch(records, api_version, limit)
        except Refused:
            return None
        topic.name = name
        return appends.add(partition, records, header)

    def _may_append(self, partition: TopicPartition, records: bytes | memoryview) -> bool:
        """Return whether a batch can be appended now, and stored as it was sent."""
        policy = partition.policy
        timestamp, in_doubt = policy.timestamps.expected(records, self._wall_ms())
        if in_doubt or policy.compacts or policy.timestamps.log_append_time:
            return False
        if self._partitions.refuses_writes(partition):
            return False
        return partition.may_append(len(records), timestamp, policy.limits)


def _has_one(request: ProduceRequest, api_version: int) -> bool:
    """Return whether the request as a whole is valid, and has one partition."""
    topics = request.topic_data
    return (
        len(topics) == 1
        and len(topics[0].partition_data) == 1
        and api_version >= FIRST_VERSION
        and request.transactional_id is None
        and request.acks in (-1, 0, 1)
    )


def _fail_run(run: Run) -> Response:
    """Answer all requests with an error, after a bug that kept all of them from an answer."""
    return _answer([failed_response(request) for request, _, _ in run], run)


def _answer(responses: list[Response], run: Run) -> Response:
    """Answer all but the last request of a run, and return the response of that one."""
    *rest, last = responses
    for (_, _, reply_to), response in zip(run, rest, strict=False):
        reply_to.answer(response)
    return last
