"""DeleteTopics: delete topics by name or id, report each result.

The deletion itself is in topic_admin.py. Source: Kafka's `ControllerApis.deleteTopics`; KIP-516
(by id).
"""

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from groupkeeper.refused_rows import refused, server_failed
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.refusals import NOT_REFUSED, Refusal
from groupkeeper.topics.slices import counts, each
from groupkeeper.topics.topic_admin import UNWRITABLE
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

NO_ID: Final = bytes(16)

_UNKNOWN_ID: Final = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
_UNKNOWN_NAME: Final = Refusal(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_DUPLICATE_ID: Final = Refusal(
    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
)


class DeleteTopicsHandler:
    """Answers DeleteTopics."""

    def __init__(self, topics: Topics) -> None:
        self._admin = topics.admin
        self._response_tasks = topics.response_tasks
        self._lines = AuditLines()

    def handle(
        self, request: DeleteTopicsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Reply at once if the timeout leaves no time; else return None and reply later."""
        if request.timeout_ms <= 0:
            error = ErrorCode.REQUEST_TIMED_OUT
            return (yield from refused(request, caller.api_version, error))
        wanted = request.topics or (
            yield from each(request.topic_names, lambda name: DeleteTopicState(name=name))
        )
        failed = partial(server_failed, request, caller.api_version)
        self._response_tasks.start(self._delete(wanted, caller), reply_to, failed)
        return None

    async def _delete(self, wanted: list[DeleteTopicState], caller: Caller) -> DeleteTopicsResponse:
        async with self._admin.changing:
            deleted, results = await self._response_tasks.turns.run(self._plan(wanted))
            error = await self._admin.delete(list(deleted.values())) if deleted else ErrorCode.NONE
        if deleted and error == ErrorCode.NONE:
            shown = list(islice(deleted, SHOWN))
            self._lines.tell("topics deleted", caller.peer, shown, len(deleted))
        message = UNWRITABLE
        if error == ErrorCode.NONE and not await self._admin.await_deletion(deleted):
            error, message = ErrorCode.REQUEST_TIMED_OUT, "The deletion is not finished yet"
        if error != ErrorCode.NONE:
            for result in results:
                if result.error_code == ErrorCode.NONE:
                    result.error_code, result.error_message = error, message
        return DeleteTopicsResponse(responses=results)

    def _plan(
        self, wanted: Iterable[DeleteTopicState]
    ) -> Slices[tuple[dict[str, Topic], list[DeletableTopicResult]]]:
        """Return the topics to delete, and one result for each topic named, as if nothing fails."""
        times = yield from counts(wanted, lambda state: (state.name, state.topic_id))
        deleted: dict[str, Topic] = {}
        results: list[DeletableTopicResult] = []

        def plan(name: str | None, topic_id: bytes) -> None:
            refusal = _check(name, topic_id, times[name, topic_id])
            topic = self._find(name, topic_id)
            if refusal is not None or topic is None:
                unknown = _UNKNOWN_ID if name is None else _UNKNOWN_NAME
                results.append(_result(name, topic_id, refusal or unknown))
                return
            if name is None and times.get((topic.name, NO_ID)) == 1:
                return  # its result is the one of its name
            refusal = NOT_REFUSED
            if name is not None and (None, topic.topic_id) in times:
                refusal = _DUPLICATE_ID
            elif topic.name in RESERVED:
                message = f"Topic '{topic.name}' is internal."
                refusal = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            results.append(_result(topic.name, topic.topic_id, refusal))
            if refusal is NOT_REFUSED:
                deleted[topic.name] = topic

        yield from each(times, lambda named: plan(*named))
        return deleted, results

    def _find(self, name: str | None, topic_id: bytes) -> Topic | None:
        if name is not None:
            return self._admin.catalog.by_name.get(name)
        return self._admin.catalog.by_id.get(topic_id)


def _check(name: str | None, topic_id: bytes, count: int) -> Refusal | None:
    """Return the error of a topic not identified, or None. `count`: times it is named."""
    by_id = topic_id != NO_ID
    message = None
    if by_id and name is not None:
        message = "You may not specify both topic name and topic id."
    elif not by_id and name is None:
        message = "Neither topic name nor id were specified."
    elif count > 1:
        message = f"Duplicate topic {'id' if by_id else 'name'}."
    return None if message is None else Refusal(ErrorCode.INVALID_REQUEST, message)


def _result(name: str | None, topic_id: bytes, refusal: Refusal) -> DeletableTopicResult:
    error, message = refusal
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=message
    )
