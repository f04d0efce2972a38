"""APIs about what there is not: SASL, transactions and the consumer protocol. Most of their answers
are in tests/parity/transcripts.
"""

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from groupkeeper.protocol.messages.describe_transactions import DescribeTransactionsRequest
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.served import Lines, Served
from tests.topics.scene import Scene


async def test_no_transactional_id_is_known(scene: Scene) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["pay"])
    [told] = (await scene.ask(0, request)).transaction_states
    assert (told.transactional_id, told.error_code) == ("pay", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def test_one_line_an_address_says_what_to_set(served: Served, lines: Lines) -> None:
    for _ in range(5):
        client = served.client()
        client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.call(1, SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"))
    [line] = [each for each in lines() if "SASL" in each["event"]]
    assert line["event"].startswith("a client wants SASL: this port has no logins")
    assert line["client"] == "/127.0.0.1"
    assert "secret" not in str(lines())


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
