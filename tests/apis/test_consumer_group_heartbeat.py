"""ConsumerGroupHeartbeat is answered, so that clients learn at once that it is not served."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.served import Served


@pytest.mark.parametrize("version", [0, 1])
def test_the_consumer_protocol_is_refused_with_what_to_do(served: Served, version: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=["t"])
    reply = served.client().call(version, request)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in reply.error_message
