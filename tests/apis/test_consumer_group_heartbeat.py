"""ConsumerGroupHeartbeat is answered, so that clients learn at once that it is not served."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.served import Lines, Served


@pytest.mark.parametrize("version", [0, 1])
def test_the_consumer_protocol_is_refused_with_what_to_do(served: Served, version: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=["t"])
    reply = served.client().call(version, request)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in reply.error_message


def test_librdkafka_shows_the_words_of_one_error_alone_and_ends_with_the_next(
    served: Served, lines: Lines
) -> None:
    """Confluent's clients have its name in their version."""
    request = ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=["t"])
    for name, version in (("librdkafka", "2.16.0"), ("confluent-kafka-go", "2.1-rdkafka-2.16.0")):
        client = served.client()
        about = {"client_software_name": name, "client_software_version": version}
        client.call(3, ApiVersionsRequest(**about))
        answers = [client.call(0, request) for _ in range(3)]
        assert [each.error_code for each in answers] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.UNSUPPORTED_VERSION,
        ]
        assert "group.protocol=classic" in answers[0].error_message
    [line] = [each for each in lines() if "group.protocol=consumer" in each["event"]]
    assert (line["group"], line["times"]) == ("g", 1)
