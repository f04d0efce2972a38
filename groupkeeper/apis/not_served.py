"""APIs of features that this server does not have: SASL, transactions, access control,
quotas, KIP-848's groups.

They are advertised and answered, as by a broker on which these features are off: without them
clients wait, or show a misleading error. A log line names the client that wants SASL or the
consumer protocol, and the setting to use instead. Source: Kafka's
`KafkaApis.handleSaslHandshakeRequest` and `handleSaslAuthenticateRequest`, which a listener without
SASL uses, and `handleConsumerGroupHeartbeat`; `TransactionCoordinator.handleListTransactions`,
`handleDescribeTransactions`; `AclApis`.
"""

from typing import Final
from weakref import WeakSet

from groupkeeper.coordinator.caller import Caller, Link, Peer
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupkeeper.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from groupkeeper.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from groupkeeper.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from groupkeeper.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from groupkeeper.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from groupkeeper.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

WANTED: Final = (
    "a client wants SASL: this port has no logins; set security.protocol=PLAINTEXT, or SSL where "
    "it speaks TLS"
)
AFTER: Final = "SaslAuthenticate request received after successful authentication"
"""Kafka's words: a listener without SASL treats every client as authenticated."""
MESSAGE: Final = "The consumer protocol (KIP-848) is not served: set group.protocol=classic."
NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
NO_CHANGES: Final = "No Authorizer is configured."

_STATES: Final = frozenset(
    (
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
        *("Dead", "PrepareEpochFence"),
    )
)

_log = Logger("connection")


class NotServed:
    """Answers these APIs."""

    def __init__(self) -> None:
        self._seldom = Seldom()
        self._told = WeakSet[Link]()
        """Connections of librdkafka that were sent the message about the consumer protocol."""

    def sasl_handshake(
        self, request: SaslHandshakeRequest, caller: Caller, reply_to: ReplyTo
    ) -> SaslHandshakeResponse:
        self._wants_sasl(caller.peer)
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    def sasl_authenticate(
        self, request: SaslAuthenticateRequest, caller: Caller, reply_to: ReplyTo
    ) -> SaslAuthenticateResponse:
        self._wants_sasl(caller.peer)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AFTER
        )

    def _wants_sasl(self, peer: Peer) -> None:
        if peer.principal:  # logged in already, on a listener with SASL
            return
        if times := self._seldom.due(peer.host):
            _log.warning(WANTED, client=peer.host, client_id=peer.client_id, times=times)

    def describe_acls(
        self, request: DescribeAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeAclsResponse:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )

    def create_acls(
        self, request: CreateAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> CreateAclsResponse:
        error = ErrorCode.SECURITY_DISABLED
        result = AclCreationResult(error_code=error, error_message=NO_CHANGES)
        return CreateAclsResponse(results=mapped(lambda _: result, request.creations))

    def delete_acls(
        self, request: DeleteAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> DeleteAclsResponse:
        error = ErrorCode.SECURITY_DISABLED
        result = DeleteAclsFilterResult(error_code=error, error_message=NO_CHANGES)
        return DeleteAclsResponse(filter_results=mapped(lambda _: result, request.filters))

    def describe_client_quotas(
        self, request: DescribeClientQuotasRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeClientQuotasResponse:
        """List no quotas: kafka-configs asks for those of users before their credentials."""
        return DescribeClientQuotasResponse(error_message=None)

    def list_transactions(
        self, request: ListTransactionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> ListTransactionsResponse:
        """List no transactions. Patterns are ignored; unknown states are repeated, as in Kafka."""
        unknown = {each: None for each in request.state_filters if each not in _STATES}
        return ListTransactionsResponse(unknown_state_filters=list(unknown))

    def describe_transactions(
        self, request: DescribeTransactionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeTransactionsResponse:
        """Answer TRANSACTIONAL_ID_NOT_FOUND for each id."""
        return DescribeTransactionsResponse(
            transaction_states=mapped(_no_transaction, request.transactional_ids)
        )

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, reply_to: ReplyTo
    ) -> ConsumerGroupHeartbeatResponse:
        """Answer UNSUPPORTED_VERSION, to librdkafka from its second request on. Kafka's answer has
        no message.

        librdkafka waits for a broker that has the API, without a word. It stops at every error but
        TOPIC_AUTHORIZATION_FAILED, and shows the message of that one alone. So that error is its
        first answer, which the application gets as an error of its consumer; the second one stops
        it.
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


def _no_transaction(transactional_id: str) -> TransactionState:
    error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if not transactional_id:
        error = ErrorCode.INVALID_REQUEST
    return TransactionState(error_code=error, transactional_id=transactional_id)


def _is_librdkafka(peer: Peer) -> bool:
    """Whether it is librdkafka, or a library built on it, whose version names librdkafka."""
    return "rdkafka" in peer.software_name or "rdkafka" in peer.software_version
