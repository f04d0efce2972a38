"""Which APIs there are, in which versions, and their compiled codecs.

Which of them a server really answers is not known here: that is its table of routes.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from groupkeeper.protocol.compile_encode import API_VERSIONS_KEY, Framing
from groupkeeper.protocol.compiler import (
    Decoder,
    SlicedDecoder,
    SlicedEncoder,
    decoder,
    encoder,
    sliced_decoder,
    sliced_encoder,
)
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import Message, layout_of
from groupkeeper.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from groupkeeper.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from groupkeeper.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from groupkeeper.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from groupkeeper.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from groupkeeper.protocol.messages.fetch import FetchRequest, FetchResponse
from groupkeeper.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from groupkeeper.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from groupkeeper.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupkeeper.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataResponse
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from groupkeeper.protocol.messages.produce import ProduceRequest, ProduceResponse
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from groupkeeper.protocol.wire import skip_tags


class Api(NamedTuple):
    """One API.

    Version ranges include both ends; `flexible` is the first flexible version, None if there is
    none.
    """

    key: int
    name: str
    request_type: type
    response_type: type
    advertised: tuple[int, int]
    served: tuple[int, int]
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


def _api(request: type, response: type, advertised_from: int | None = None) -> Api:
    layout = layout_of(request)
    assert layout.key is not None
    assert layout[1:4] == layout_of(response)[1:4], layout.name
    oldest, newest = layout.versions
    lowest = oldest if advertised_from is None else advertised_from
    name = layout.name.removesuffix("Request")
    return Api(
        layout.key, name, request, response, (lowest, newest), layout.versions, layout.flexible
    )


_ALL = (
    # Produce 0-2 are advertised for old librdkafka, which compresses only if it sees version 0
    # (KAFKA-18659).
    _api(ProduceRequest, ProduceResponse, advertised_from=0),
    _api(FetchRequest, FetchResponse),
    _api(ListOffsetsRequest, ListOffsetsResponse),
    _api(MetadataRequest, MetadataResponse),
    _api(OffsetCommitRequest, OffsetCommitResponse),
    _api(OffsetFetchRequest, OffsetFetchResponse),
    _api(FindCoordinatorRequest, FindCoordinatorResponse),
    _api(JoinGroupRequest, JoinGroupResponse),
    _api(HeartbeatRequest, HeartbeatResponse),
    _api(LeaveGroupRequest, LeaveGroupResponse),
    _api(SyncGroupRequest, SyncGroupResponse),
    _api(DescribeGroupsRequest, DescribeGroupsResponse),
    _api(ListGroupsRequest, ListGroupsResponse),
    _api(ApiVersionsRequest, ApiVersionsResponse),
    _api(CreateTopicsRequest, CreateTopicsResponse),
    _api(DeleteTopicsRequest, DeleteTopicsResponse),
    _api(DeleteRecordsRequest, DeleteRecordsResponse),
    _api(InitProducerIdRequest, InitProducerIdResponse),
    _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(DescribeConfigsRequest, DescribeConfigsResponse),
    _api(AlterConfigsRequest, AlterConfigsResponse),
    _api(CreatePartitionsRequest, CreatePartitionsResponse),
    _api(DeleteGroupsRequest, DeleteGroupsResponse),
    _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    _api(OffsetDeleteRequest, OffsetDeleteResponse),
    _api(DescribeClusterRequest, DescribeClusterResponse),
    _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
    _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)

APIS: dict[int, Api] = {api.key: api for api in _ALL}

_fixed_header = Struct(">hhih")
_read_correlation_id = Struct(">i").unpack_from


@cache
def request_decoder(key: int, version: int) -> Decoder:
    """`decode(buffer, pos, end) -> request`, from behind the header; KeyError or ValueError if it
    is not served.
    """
    return decoder(APIS[key].request_type, version)


@cache
def response_encoder(key: int, version: int) -> Callable[[Message, int], bytes]:
    """`encode(response, correlation_id) -> bytes`: the whole frame; TypeError or ValueError for
    what cannot be written.
    """
    return encoder(APIS[key].response_type, version, Framing.RESPONSE)


def sliced_request_decoder(key: int, version: int) -> SlicedDecoder:
    """As :func:`request_decoder`, a slice at a time: for long requests."""
    return sliced_decoder(APIS[key].request_type, version)


def sliced_response_encoder(key: int, version: int) -> SlicedEncoder:
    """As :func:`response_encoder`, a piece at a time and without the size: for long answers."""
    return sliced_encoder(APIS[key].response_type, version)


@cache
def request_encoder(key: int, version: int) -> Callable[[Message, int, str | None], bytes]:
    """`encode(request, correlation_id, client_id) -> bytes`: the whole frame."""
    api = APIS[key]
    encode = encoder(api.request_type, version, Framing.REQUEST)
    tags = b"\0" if api.is_flexible(version) else b""

    def encode_request(request: Message, correlation_id: int, client_id: str | None) -> bytes:
        name = b"" if client_id is None else client_id.encode()
        size = -1 if client_id is None else len(name)
        header = _fixed_header.pack(key, version, correlation_id, size) + name + tags
        return encode(request, header)

    return encode_request


@cache
def response_decoder(key: int, version: int) -> Callable[[bytes, int, int], tuple[int, Any]]:
    """`decode(buffer, pos, end) -> (correlation id, response)`, from behind the size."""
    api = APIS[key]
    decode = decoder(api.response_type, version)
    has_tags = api.is_flexible(version) and key != API_VERSIONS_KEY

    def decode_response(
        buffer: bytes, pos: int, end: int
    ) -> tuple[int, Any]:  # Any: the API's response
        try:
            (correlation_id,) = _read_correlation_id(buffer, pos)
            pos += 4
            if has_tags:
                pos = skip_tags(buffer, pos, end)
        except (IndexError, struct_error) as error:
            raise DecodeError(f"response header: {error}") from error
        return correlation_id, decode(buffer, pos, end)

    return decode_response
