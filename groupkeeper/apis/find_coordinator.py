"""FindCoordinator: this node coordinates every group.

Transactions are refused so that each client fails at once and says why (docs/clients.md).
Source: Kafka's `KafkaApis.handleFindCoordinatorRequest`; KIP-699 (several keys).
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.node import Node
from groupkeeper.observe.limit_lines import limit_reached
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.find_coordinator import (
    KEY_TYPE_GROUP,
    KEY_TYPE_SHARE,
    KEY_TYPE_TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from groupkeeper.topics.batches import NO_TRANSACTIONS
from groupkeeper.topics.refusals import MALFORMED, NOT_REFUSED, Refusal

MAX_KEYS_ASKED: Final = 100_000
"""How many groups one request may name; more are INVALID_REQUEST."""

SHOWN_SINCE: Final = 3
"""Clients that send this version or a later one end with any error, and show its message or name.
"""

_ERRORS: Final = {
    KEY_TYPE_GROUP: ErrorCode.NONE,
    # As a broker without a share coordinator replies, to valid and invalid keys.
    KEY_TYPE_SHARE: ErrorCode.INVALID_REQUEST,
}

_log = Logger("connection")


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(
        self, request: FindCoordinatorRequest, caller: Caller, reply_to: ReplyTo
    ) -> FindCoordinatorResponse:
        """One result per key from v4 on, a single one before."""
        error, message = _refusal(request.key_type, caller)
        if len(request.coordinator_keys) > MAX_KEYS_ASKED:
            error, message = ErrorCode.INVALID_REQUEST, f"at most {MAX_KEYS_ASKED} keys"
            limit_reached(_log, "MAX_KEYS_ASKED", MAX_KEYS_ASKED, "FindCoordinator", caller)
        node_id, (host, port) = self._node.node_id, self._node.address(caller.peer.listener)
        if error:
            node_id, host, port = -1, "", -1
        if caller.api_version >= 4:

            def found(key: str) -> Coordinator:
                return Coordinator(
                    key=key,
                    node_id=node_id,
                    host=host,
                    port=port,
                    error_code=error,
                    error_message=message or "",
                )

            return FindCoordinatorResponse(coordinators=mapped(found, request.coordinator_keys))
        # Kafka's older versions have a message for each error, the newer ones have not.
        message = message or ("NONE" if not error else MALFORMED)
        return FindCoordinatorResponse(
            error_code=error, error_message=message, node_id=node_id, host=host, port=port
        )


def _refusal(key_type: int, caller: Caller) -> Refusal:
    if key_type == KEY_TYPE_TRANSACTION:
        return _of_transactions(caller)
    if key_type in _ERRORS:
        return Refusal(_ERRORS[key_type])
    return Refusal(ErrorCode.INVALID_REQUEST, MALFORMED)


def _of_transactions(caller: Caller) -> Refusal:
    if caller.api_version >= SHOWN_SINCE:
        return NO_TRANSACTIONS
    if caller.peer.software_name:
        # librdkafka tries all errors but this one and CLUSTER_AUTHORIZATION_FAILED again, without a
        # word. It shows the message.
        return NO_TRANSACTIONS._replace(error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # kafkajs and aiokafka hide or mistake an error of this API; they show that of InitProducerId.
    return NOT_REFUSED
