"""DescribeCluster: the cluster's id and its brokers (KIP-700).

Version 1 can ask for controllers (KIP-919), 2 for fenced brokers (KIP-1073).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.protocol.types import Array, Boolean, Int8, Int16, Int32, NullableString, String

ENDPOINT_BROKERS = 1
ENDPOINT_CONTROLLERS = 2


@message(key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    """Selects the endpoints to describe."""

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Int8 = since(1, default=ENDPOINT_BROKERS)
    """1 asks for brokers, 2 for controllers."""
    include_fenced_brokers: Boolean = since(2)
    """Whether to list brokers that are registered but fenced."""


@struct
class DescribeClusterBroker:
    """One broker, or one controller."""

    broker_id: Int32 = 0
    """Id of the broker."""
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Boolean = since(2)
    """Whether the broker is fenced: registered, but without leaderships."""


@response_to(DescribeClusterRequest)
class DescribeClusterResponse:
    """The cluster as the answering broker sees it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = since(1, default=ENDPOINT_BROKERS)
    """What `brokers` lists: 1 for brokers, 2 for controllers."""
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = empty()
    """The brokers, or the controllers."""
    cluster_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
