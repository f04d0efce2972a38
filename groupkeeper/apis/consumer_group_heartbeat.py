"""ConsumerGroupHeartbeat: refused, as the consumer protocol (KIP-848) is not served.

It is advertised all the same, as by a broker whose `group.coordinator.rebalance.protocols` is
`classic`: librdkafka waits for a broker that has the API, and says nothing meanwhile; from the
answer it learns at once what is wrong. Kafka's answer has no message.
Source: Kafka's `KafkaApis.handleConsumerGroupHeartbeat`.
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

MESSAGE: Final = "The consumer protocol (KIP-848) is not served: set group.protocol=classic."


def refuse(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, reply_to: ReplyTo
) -> ConsumerGroupHeartbeatResponse:
    """UNSUPPORTED_VERSION for everybody."""
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=MESSAGE
    )
