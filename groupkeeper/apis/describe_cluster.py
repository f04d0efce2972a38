"""DescribeCluster: one broker, which is also the controller.

Source: Kafka's `KafkaApis.handleDescribeCluster`; KIP-700, KIP-919 (endpoint types).
"""

from groupkeeper.apis.metadata import CLUSTER_OPERATIONS
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_cluster import (
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from groupkeeper.topics.topics import Topics


class DescribeClusterHandler:
    """Answers DescribeCluster."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._node = node
        self._topics = topics

    def handle(
        self, request: DescribeClusterRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeClusterResponse:
        """Describe the broker; refuse a request for controllers, as Kafka's brokers do."""
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
        host, port = self._node.address(caller.peer.listener)
        response = DescribeClusterResponse(
            cluster_id=self._topics.cluster_id,
            controller_id=self._node.node_id,
            brokers=[DescribeClusterBroker(broker_id=self._node.node_id, host=host, port=port)],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response
