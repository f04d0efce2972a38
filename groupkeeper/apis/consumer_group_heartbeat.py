"""ConsumerGroupHeartbeat: refused, as the consumer protocol (KIP-848) is not served.

It is advertised all the same, as by a broker whose `group.coordinator.rebalance.protocols` is
`classic`: librdkafka waits for a broker that has the API, and says nothing meanwhile; from the
answer it learns at once what is wrong. Kafka's answer has no message.
Source: Kafka's `KafkaApis.handleConsumerGroupHeartbeat`.
"""

from typing import Final
from weakref import WeakSet

from groupkeeper.coordinator.caller import Caller, Link, Peer
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

MESSAGE: Final = "The consumer protocol (KIP-848) is not served: set group.protocol=classic."

_log = Logger("connection")


class ConsumerGroupHeartbeatHandler:
    """Answers ConsumerGroupHeartbeat."""

    def __init__(self) -> None:
        self._seldom = Seldom()
        self._told = WeakSet[Link]()
        """Connections of librdkafka that have had the words."""

    def handle(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, reply_to: ReplyTo
    ) -> ConsumerGroupHeartbeatResponse:
        """UNSUPPORTED_VERSION for everybody; for librdkafka from the second time on.

        It ends with every error but TOPIC_AUTHORIZATION_FAILED, and shows the message of that one
        alone. So it gets that first, which the application reads as an error of its consumer, and
        then ends.
        """
        peer = caller.peer
        if times := self._seldom.due((peer.host, peer.client_id)):
            who = {"client": peer.host, "client_id": peer.client_id, "group": request.group_id}
            _log.warning("a client wants group.protocol=consumer: set classic", **who, times=times)
        error = ErrorCode.UNSUPPORTED_VERSION
        if _is_librdkafka(peer) and peer.link not in self._told:
            self._told.add(peer.link)
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ConsumerGroupHeartbeatResponse(error_code=error, error_message=MESSAGE)


def _is_librdkafka(peer: Peer) -> bool:
    """Libraries that are built on it give its name in their version."""
    return "rdkafka" in peer.software_name or "rdkafka" in peer.software_version
