"""What every client asks first: which APIs there are, who coordinates a group, which brokers make
the cluster.

Not the topics: Metadata is the data plane's.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from groupkeeper.apis.metadata import CLUSTER_OPERATIONS, Node
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.limit_lines import limit_reached
from groupkeeper.observe.logs import Log
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from groupkeeper.protocol.messages.describe_cluster import (
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from groupkeeper.protocol.messages.find_coordinator import (
    KEY_TYPE_GROUP,
    KEY_TYPE_SHARE,
    KEY_TYPE_TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from groupkeeper.protocol.registry import APIS

API_VERSIONS = 18
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What a client may call itself (KIP-511)."""

MAX_KEYS_ASKED: Final = 100_000
"""How many groups one FindCoordinator may name; more are INVALID_REQUEST."""

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's words for INVALID_REQUEST where it has no others."""
REASONS = {
    ErrorCode.NONE: "NONE",
    ErrorCode.INVALID_REQUEST: MALFORMED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactions are not supported.",
}
"""What Kafka says to the error up to version 3; our own where Kafka would give no error."""

_ERRORS = {
    KEY_TYPE_GROUP: ErrorCode.NONE,
    KEY_TYPE_TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    # As a broker without share coordinator answers, for good keys and bad ones.
    KEY_TYPE_SHARE: ErrorCode.INVALID_REQUEST,
}

_log = Log("connection")


class Versions:
    """ApiVersions: what is routed is what is advertised."""

    def __init__(self, keys: Iterable[int]) -> None:
        self._api_keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted((k, APIS[k].advertised) for k in keys)
        ]

    def handle(
        self, request: ApiVersionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> ApiVersionsResponse:
        """The ranges of all routed APIs."""
        named = (request.client_software_name, request.client_software_version)
        if caller.api_version >= 3 and not all(SOFTWARE.fullmatch(name) for name in named):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return ApiVersionsResponse(api_keys=self._api_keys)

    def unknown_version(
        self, request: None, caller: Caller, reply_to: ReplyTo
    ) -> ApiVersionsResponse:
        """In the form of version 0, with the one range that helps the client to ask again."""
        own = [each for each in self._api_keys if each.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


class CoordinatorLookup:
    """FindCoordinator: this node coordinates every group."""

    def __init__(self, node_id: int, address: Callable[[], tuple[str, int]]) -> None:
        self._node_id = node_id
        self._address = address

    def handle(
        self, request: FindCoordinatorRequest, caller: Caller, reply_to: ReplyTo
    ) -> FindCoordinatorResponse:
        """One result per key from v4 on, a single one before.

        The newer ones have a message only where the whole request is refused, as in Kafka.
        """
        error = _ERRORS.get(request.key_type, ErrorCode.INVALID_REQUEST)
        message = "" if request.key_type in _ERRORS else REASONS[error]
        if len(request.coordinator_keys) > MAX_KEYS_ASKED:
            error, message = ErrorCode.INVALID_REQUEST, f"at most {MAX_KEYS_ASKED} keys"
            limit_reached(_log, "MAX_KEYS_ASKED", MAX_KEYS_ASKED, "FindCoordinator", caller)
        node_id, (host, port) = self._node_id, self._address()
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


class ClusterDescription:
    """DescribeCluster: one broker, which is the controller, too (KIP-700)."""

    def __init__(self, node: Node, cluster_id: Callable[[], str]) -> None:
        self._node = node
        self._cluster_id = cluster_id

    def handle(
        self, request: DescribeClusterRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeClusterResponse:
        """Controllers have end points of their own (KIP-919), which a broker is not."""
        if request.endpoint_type == ENDPOINT_CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of type BROKER, but we wanted "
                "an endpoint of type CONTROLLER",
            )
        if request.endpoint_type != ENDPOINT_BROKERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"Unsupported endpoint type {request.endpoint_type}",
            )
        host, port = self._node.address()
        response = DescribeClusterResponse(
            cluster_id=self._cluster_id(),
            controller_id=self._node.node_id,
            brokers=[DescribeClusterBroker(broker_id=self._node.node_id, host=host, port=port)],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response
