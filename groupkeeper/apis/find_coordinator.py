"""FindCoordinator: this node coordinates every group.

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
from groupkeeper.topics.refusals import MALFORMED

MAX_KEYS_ASKED: Final = 100_000
"""How many groups one request may name; more are INVALID_REQUEST."""

REASONS: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: MALFORMED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactions are not supported.",
}
"""Kafka's message for each error up to version 3; our own where Kafka has no error."""

_ERRORS: Final = {
    KEY_TYPE_GROUP: ErrorCode.NONE,
    KEY_TYPE_TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
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
        """One result per key from v4 on, a single one before.

        As in Kafka, newer versions have a message only if the whole request is refused.
        """
        error = _ERRORS.get(request.key_type, ErrorCode.INVALID_REQUEST)
        message = "" if request.key_type in _ERRORS else REASONS[error]
        if len(request.coordinator_keys) > MAX_KEYS_ASKED:
            error, message = ErrorCode.INVALID_REQUEST, f"at most {MAX_KEYS_ASKED} keys"
            limit_reached(_log, "MAX_KEYS_ASKED", MAX_KEYS_ASKED, "FindCoordinator", caller)
        node_id, (host, port) = self._node.node_id, self._node.address()
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
                    error_message=message,
                )

            return FindCoordinatorResponse(coordinators=mapped(found, request.coordinator_keys))
        return FindCoordinatorResponse(
            error_code=error, error_message=REASONS[error], node_id=node_id, host=host, port=port
        )
