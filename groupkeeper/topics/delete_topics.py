"""DeleteTopics: delete the topics that are there, by name or id; say what became of each.

Not the deleting itself (topic_admin.py). Source: Kafka's ``ControllerApis.deleteTopics``; KIP-516
(by id).
"""

from typing import Final

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import RESERVED
from groupkeeper.topics.offload import LateAnswers
from groupkeeper.topics.topic_admin import TopicAdmin
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

NO_ID: Final = bytes(16)


class DeletingTopics:
    """Answers DeleteTopics."""

    def __init__(self, admin: TopicAdmin, late: LateAnswers) -> None:
        self._admin = admin
        self._late = late

    def handle(self, request: DeleteTopicsRequest, caller: Caller, reply_to: ReplyTo) -> None:
        wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
        self._late.start(self._delete(wanted), reply_to, lambda: _broken(wanted))

    async def _delete(self, wanted: list[DeleteTopicState]) -> DeleteTopicsResponse:
        async with self._admin.changing:
            doomed: dict[str, Topic] = {}
            results = [self._check(state, doomed) for state in wanted]
            code = await self._admin.delete(list(doomed.values())) if doomed else ErrorCode.NONE
        message = "The catalog of topics cannot be written"
        if code == ErrorCode.NONE and not await self._admin.ended(doomed):
            code, message = ErrorCode.REQUEST_TIMED_OUT, "The deletion is not finished yet"
        if code != ErrorCode.NONE:
            for result in results:
                if result.error_code == ErrorCode.NONE:
                    result.error_code, result.error_message = code, message
        return DeleteTopicsResponse(responses=results)

    def _check(self, wanted: DeleteTopicState, doomed: dict[str, Topic]) -> DeletableTopicResult:
        """The result if all goes well; a topic that can be deleted is added to `doomed`."""
        by_id = wanted.topic_id != NO_ID
        if by_id == (wanted.name is not None):
            return _refused(
                wanted,
                ErrorCode.INVALID_REQUEST,
                "You may not specify both topic name and topic id."
                if by_id
                else "Neither topic name nor id were specified.",
            )
        topic = self._find(wanted)
        if topic is None:
            return _unknown(wanted)
        found = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
        if topic.name in RESERVED:
            return _refused(
                found, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' is internal."
            )
        if topic.name in doomed:
            return _refused(found, ErrorCode.INVALID_REQUEST, "The topic is named more than once.")
        doomed[topic.name] = topic
        return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)

    def _find(self, wanted: DeleteTopicState) -> Topic | None:
        if wanted.name is not None:
            return self._admin.catalog.by_name.get(wanted.name)
        return self._admin.catalog.by_id.get(wanted.topic_id)


def _unknown(wanted: DeleteTopicState) -> DeletableTopicResult:
    if wanted.name is None:
        return _refused(
            wanted, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        )
    return _refused(
        wanted,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )


def _refused(wanted: DeleteTopicState, code: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=message
    )


def _broken(wanted: list[DeleteTopicState]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            _refused(state, ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed") for state in wanted
        ]
    )
