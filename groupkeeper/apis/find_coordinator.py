"""FindCoordinator: names this node for every group, except for partitions that it cannot serve.

Transactions are refused so that each client fails at once with the reason (docs/clients.md).
Source: Kafka's `KafkaApis.handleFindCoordinatorRequest`; KIP-699 (several keys).
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.node import Node
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import limit_reached
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
from groupkeeper.protocol.placement import STATUS_HINT
from groupkeeper.topics.batches import NO_TRANSACTIONS
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.topics.refusals import MALFORMED, NOT_REFUSED, Refusal

MAX_KEYS_ASKED: Final = 100_000
"""How many groups one request may name; more are INVALID_REQUEST."""

SHOWN_SINCE: Final = 3
"""Clients that send this version or a later one stop at any error, and show it."""

_ERRORS: Final = {
    KEY_TYPE_GROUP: ErrorCode.NONE,
    # As a broker without a share coordinator replies, to valid and invalid keys.
    KEY_TYPE_SHARE: ErrorCode.INVALID_REQUEST,
}

_log = Logger("connection")


class FindCoordinatorHandler:
    """Answers FindCoordinator."""

    def __init__(self, node: Node, group_partitions: GroupPartitions) -> None:
        self._node = node
        self._group_partitions = group_partitions

    def handle(
        self, request: FindCoordinatorRequest, caller: Caller, reply_to: ReplyTo
    ) -> FindCoordinatorResponse:
        """Return one result per key from v4 on, a single one before."""
        error, message = _refusal(request.key_type, caller)
        if len(request.coordinator_keys) > MAX_KEYS_ASKED:
            error, message = ErrorCode.INVALID_REQUEST, f"at most {MAX_KEYS_ASKED} keys"
            limit_reached(_log, "max_keys_asked", MAX_KEYS_ASKED, "FindCoordinator", caller)
        host, port = self._node.address(caller.peer.listener)
        is_group = request.key_type == KEY_TYPE_GROUP and not error
        are_unserved = is_group and bool(self._group_partitions.unserved())

        def found(key: str) -> Coordinator:
            why = self._absence(key) if are_unserved else None
            code, told = why or (error, message)
            return Coordinator(
                key=key,
                node_id=-1 if code else self._node.node_id,
                host="" if code else host,
                port=-1 if code else port,
                error_code=code,
                error_message=told or "",
            )

        if caller.api_version >= 4:
            return FindCoordinatorResponse(coordinators=mapped(found, request.coordinator_keys))
        one = found(request.key)
        # Kafka's older versions have a message for each error, the newer ones have not.
        told = one.error_message or ("NONE" if not one.error_code else MALFORMED)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=told,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _absence(self, group_id: str) -> Refusal | None:
        """Answer as a Kafka cluster does for a partition without a leader, with words."""
        driver = self._group_partitions.of(group_id)
        if not driver.is_unserved:
            return None
        why = f"partition {driver.index} of {GROUP_TOPIC} is not served: {STATUS_HINT}"
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


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
