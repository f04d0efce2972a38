"""DeleteTopics (key 20): remove topics by name, from version 6 on also by id (KIP-516)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int16, Int32, NullableString, String, Uuid


@struct
class DeleteTopicState:
    """A topic to remove, by name or by id."""

    name: NullableString = since(6, default=None)
    topic_id: Uuid = since(6)


@message(key=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible=4)
class DeleteTopicsRequest:
    """Removes `topic_names` up to version 5, `topics` from 6 on."""

    topics: Array[DeleteTopicState] = since(6)
    topic_names: Array[String] = until(5)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    """Whether one topic is removed."""

    name: NullableString = since(0, nullable_since=6, default="")
    topic_id: Uuid = since(6)
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None)


@response_to(DeleteTopicsRequest)
class DeleteTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = since(1)
    responses: Array[DeletableTopicResult] = empty()
