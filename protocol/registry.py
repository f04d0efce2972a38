"""The APIs that are implemented, their versions, and their compiled codecs.

A server answers those that its own table of APIs has a handler for.

Source: Kafka 4.1, `ApiKeys` (versions) and `ApiMessageType` (header versions).
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import (
    Decoder,
    SlicedDecoder,
    SlicedEncoder,
    decoder,
    encoder,
    sliced_decoder,
    sliced_encoder,
)
from groupkeeper.protocol.message import Message, key_of, layout_of
from groupkeeper.protocol.messages.alter_configs import AlterConfigsRequest
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from groupkeeper.protocol.messages.create_partitions import CreatePartitionsRequest
from groupkeeper.protocol.messages.create_topics import CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_records import DeleteRecordsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest
from groupkeeper.protocol.messages.describe_cluster import DescribeClusterRequest
from groupkeeper.protocol.messages.describe_configs import DescribeConfigsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from groupkeeper.protocol.messages.describe_quorum import DescribeQuorumRequest
from groupkeeper.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from groupkeeper.protocol.messages.describe_transactions import DescribeTransactionsRequest
from groupkeeper.protocol.messages.fetch import FetchRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from groupkeeper.protocol.messages.list_config_resources import ListConfigResourcesRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.list_offsets import ListOffsetsRequest
from groupkeeper.protocol.messages.list_transactions import ListTransactionsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest


class Api(NamedTuple):
    """One API. Version ranges include both ends; `flexible` is the first flexible version, or None.

    Fewer versions may be served than are advertised: the others are refused.
    """

    key: ApiKey
    name: str
    request_type: type
    response_type: type
    advertised: tuple[int, int]
    served: tuple[int, int]
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


def api_of(request: type, advertised_from: int | None = None) -> Api:
    """The API of a request class; `advertised_from` is a version before the first served one."""
    layout = layout_of(request)
    assert layout.response is not None, layout.name
    oldest, newest = layout.versions
    return Api(
        key=key_of(request),
        name=layout.name.removesuffix("Request"),
        request_type=request,
        response_type=layout.response,
        advertised=(oldest if advertised_from is None else advertised_from, newest),
        served=layout.versions,
        flexible=layout.flexible,
    )


_ALL = (
    # Produce 0-2 are advertised for old librdkafka, which compresses only if it sees version 0
    # (KAFKA-18659).
    api_of(ProduceRequest, advertised_from=0),
    api_of(FetchRequest),
    api_of(ListOffsetsRequest),
    api_of(MetadataRequest),
    api_of(OffsetCommitRequest),
    api_of(OffsetFetchRequest),
    api_of(FindCoordinatorRequest),
    api_of(JoinGroupRequest),
    api_of(HeartbeatRequest),
    api_of(LeaveGroupRequest),
    api_of(SyncGroupRequest),
    api_of(DescribeGroupsRequest),
    api_of(ListGroupsRequest),
    api_of(SaslHandshakeRequest),
    api_of(ApiVersionsRequest),
    api_of(CreateTopicsRequest),
    api_of(DeleteTopicsRequest),
    api_of(DeleteRecordsRequest),
    api_of(InitProducerIdRequest),
    api_of(OffsetForLeaderEpochRequest),
    api_of(DescribeAclsRequest),
    api_of(DescribeConfigsRequest),
    api_of(AlterConfigsRequest),
    api_of(DescribeLogDirsRequest),
    api_of(SaslAuthenticateRequest),
    api_of(CreatePartitionsRequest),
    api_of(DeleteGroupsRequest),
    api_of(IncrementalAlterConfigsRequest),
    api_of(OffsetDeleteRequest),
    api_of(DescribeQuorumRequest),
    api_of(DescribeClusterRequest),
    api_of(DescribeTransactionsRequest),
    api_of(ListTransactionsRequest),
    api_of(ConsumerGroupHeartbeatRequest),
    api_of(ListConfigResourcesRequest),
    api_of(DescribeTopicPartitionsRequest),
)

APIS: dict[int, Api] = {api.key: api for api in _ALL}
"""By `ApiKey`. The keys of the type are int because a request's header can hold any int16."""


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """`decode(buffer, pos, end) -> request`, from the end of the header on; KeyError or ValueError
    if API or version are not served.
    """
    return decoder(APIS[key].request_type, version)


@cache
def response_encoder(key: int, version: int) -> Callable[[Message, int], bytes]:
    """`encode(response, correlation_id) -> bytes`: the whole frame; TypeError or ValueError for a
    value that cannot be encoded.
    """
    return encoder(APIS[key].response_type, version, Framing.RESPONSE)


def sliced_request_decoder(key: int, version: int) -> SlicedDecoder:
    """As `request_decoder`, slice by slice: for long requests."""
    return sliced_decoder(APIS[key].request_type, version)


def sliced_response_encoder(key: int, version: int) -> SlicedEncoder:
    """As `response_encoder`, piece by piece and without the size: for long responses."""
    return sliced_encoder(APIS[key].response_type, version)
