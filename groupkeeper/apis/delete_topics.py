"""DeleteTopics: delete the topics that are there, by name or id; say what became of each.

Not the deleting itself (topic_admin.py). Source: Kafka's ``ControllerApis.deleteTopics``; KIP-516
(by id).
"""

from collections.abc import Iterable
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.slices import counts, each
from groupkeeper.topics.topic_admin import UNWRITABLE, Refusal
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

NO_ID: Final = bytes(16)

_UNKNOWN_ID: Final[Refusal] = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    "This server does not host this topic ID.",
)
_UNKNOWN_NAME: Final[Refusal] = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "This server does not host this topic-partition.",
)
_MEANT_TWICE: Final[Refusal] = (
    ErrorCode.INVALID_REQUEST,
    "The provided topic name maps to an ID that was already supplied.",
)


class DeleteTopicsHandler:
    """Answers DeleteTopics."""

    def __init__(self, topics: Topics) -> None:
        self._admin = topics.admin
        self._response_tasks = topics.response_tasks

    def handle(
        self, request: DeleteTopicsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """The response if there is no time for anything, else None and the response later."""
        wanted = request.topics or (
            yield from each(request.topic_names, lambda name: DeleteTopicState(name=name))
        )
        if request.timeout_ms <= 0:
            timed_out: Refusal = (ErrorCode.REQUEST_TIMED_OUT, None)
            results = yield from each(
                wanted, lambda state: _result(state.name, state.topic_id, timed_out)
            )
            return DeleteTopicsResponse(responses=results)
        self._response_tasks.start(
            self._delete(wanted),
            reply_to,
            lambda: _broken(wanted),
        )
        return None

    async def _delete(self, wanted: list[DeleteTopicState]) -> DeleteTopicsResponse:
        async with self._admin.changing:
            deleted, results = await self._response_tasks.turns.run(self._plan(wanted))
            code = await self._admin.delete(list(deleted.values())) if deleted else ErrorCode.NONE
        message = UNWRITABLE
        if code == ErrorCode.NONE and not await self._admin.await_deletion(deleted):
            code, message = ErrorCode.REQUEST_TIMED_OUT, "The deletion is not finished yet"
        if code != ErrorCode.NONE:
            for result in results:
                if result.error_code == ErrorCode.NONE:
                    result.error_code, result.error_message = code, message
        return DeleteTopicsResponse(responses=results)

    def _plan(
        self, wanted: Iterable[DeleteTopicState]
    ) -> Slices[tuple[dict[str, Topic], list[DeletableTopicResult]]]:
        """The topics to delete, and one result for each that is named, if all goes well."""
        times = yield from counts(wanted, lambda state: (state.name, state.topic_id))
        deleted: dict[str, Topic] = {}
        results: list[DeletableTopicResult] = []

        def plan(name: str | None, topic_id: bytes) -> None:
            refusal = _unclear(name, topic_id, times[name, topic_id])
            topic = self._find(name, topic_id)
            if refusal is not None or topic is None:
                unknown = _UNKNOWN_ID if name is None else _UNKNOWN_NAME
                results.append(_result(name, topic_id, refusal or unknown))
                return
            if name is None and times.get((topic.name, NO_ID)) == 1:
                return  # it has its result under its name
            meant_twice = name is not None and (None, topic.topic_id) in times
            refusal = _MEANT_TWICE if meant_twice else _internal(topic)
            results.append(_result(topic.name, topic.topic_id, refusal))
            if refusal is None:
                deleted[topic.name] = topic

        yield from each(times, lambda named: plan(*named))
        return deleted, results

    def _find(self, name: str | None, topic_id: bytes) -> Topic | None:
        if name is not None:
            return self._admin.catalog.by_name.get(name)
        return self._admin.catalog.by_id.get(topic_id)


def _unclear(name: str | None, topic_id: bytes, count: int) -> Refusal | None:
    """Why it cannot be said what is meant, or None. `count`: how often it is asked for."""
    by_id = topic_id != NO_ID
    complaint = None
    if by_id and name is not None:
        complaint = "You may not specify both topic name and topic id."
    elif not by_id and name is None:
        complaint = "Neither topic name nor id were specified."
    elif count > 1:
        complaint = f"Duplicate topic {'id' if by_id else 'name'}."
    return None if complaint is None else (ErrorCode.INVALID_REQUEST, complaint)


def _internal(topic: Topic) -> Refusal | None:
    if topic.name not in RESERVED:
        return None
    return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' is internal."


def _result(name: str | None, topic_id: bytes, refusal: Refusal | None) -> DeletableTopicResult:
    code, message = refusal or (ErrorCode.NONE, None)
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )


def _broken(wanted: Iterable[DeleteTopicState]) -> DeleteTopicsResponse:
    broken: Refusal = (ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed")
    return DeleteTopicsResponse(
        responses=[_result(state.name, state.topic_id, broken) for state in wanted]
    )
