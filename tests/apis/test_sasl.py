"""SASL on a port that authenticates nobody."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.served import Lines, Served


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_is_refused_and_the_connection_stays(served: Served, version: int) -> None:
    client = served.client()
    answer = client.call(version, SaslHandshakeRequest(mechanism="PLAIN"))
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.commit(1) == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_is_refused_in_kafkas_words(served: Served, version: int) -> None:
    answer = served.client().call(version, SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message.endswith("received after successful authentication")


def test_one_line_an_address_says_what_to_set(served: Served, lines: Lines) -> None:
    for _ in range(5):
        client = served.client()
        client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.call(1, SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"))
    [line] = [each for each in lines() if "SASL" in each["event"]]
    assert line["event"].endswith("set security.protocol=PLAINTEXT")
    assert line["client"] == "/127.0.0.1"
    assert "secret" not in str(lines())
