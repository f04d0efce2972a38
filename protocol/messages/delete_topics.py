"""DeleteTopics: deletes topics by name, from version 6 on also by id (KIP-516)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int16, Int32, NullableString, String, Uuid


@struct
class DeleteTopicState:
    """A topic to delete, by name or by id."""

    name: NullableString = since(6, default=None)
    """Name of the topic; null if it is given by id."""
    topic_id: Uuid = since(6)
    """Id of the topic; zero if it is given by name."""


@message(key=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible=4)
class DeleteTopicsRequest:
    """Deletes `topic_names` up to version 5, `topics` from 6 on."""

    topics: Array[DeleteTopicState] = since(6)
    topic_names: Array[String] = until(5)
    """Topics to delete."""
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    """The result for one topic."""

    name: NullableString = since(0, nullable_since=6, default="")
    """Name of the topic; null if it was given by an unknown id."""
    topic_id: Uuid = since(6)
    """Id of the topic; zero if unknown."""
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None)


@response_to(DeleteTopicsRequest)
class DeleteTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = since(1)
    responses: Array[DeletableTopicResult] = empty()
