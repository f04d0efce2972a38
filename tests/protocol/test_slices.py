"""Codecs in slices do exactly what the others do, and never much of it at a time."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_decode import SLICE_ITEMS, SLICE_NUMBERS
from groupkeeper.protocol.compile_encode import SLICE_PIECES, Framing
from groupkeeper.protocol.compiler import decoder, encoder, sliced_decoder, sliced_encoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.registry import APIS, response_encoder, sliced_response_encoder
from groupkeeper.protocol.wire import MOST_TAGS, write_varint
from tests.support.cases import each
from tests.support.messages import all_cases, random_message

CASES = list(all_cases())
STYLES = ("plain", "nulls", "tagged")
RESPONSES = [(cls, version) for cls, version in CASES if layout_of(cls).name.endswith("Response")]


def decode(cls: type, version: int, body: bytes) -> tuple[object, int]:
    """The message and the number of slices."""
    slices, count = sliced_decoder(cls, version)(body, 0, len(body)), 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value, count
        count += 1


def outcome(cls: type, version: int, body: bytes, sliced: bool) -> object:
    try:
        if sliced:
            return decode(cls, version, body)[0]
        return decoder(cls, version)(body, 0, len(body))
    except DecodeError as error:
        return str(error)


@each((*case, style) for case in CASES for style in STYLES)
def test_decoding_in_slices_gives_the_same(cls: type, version: int, style: str) -> None:
    body = encoder(cls, version, Framing.BARE)(random_message(cls, version, style, 1))
    assert decode(cls, version, body)[0] == decoder(cls, version)(body, 0, len(body))


@each((*case, style) for case in RESPONSES for style in STYLES)
def test_encoding_in_slices_gives_the_same(cls: type, version: int, style: str) -> None:
    message = random_message(cls, version, style, 1)
    whole = encoder(cls, version, Framing.RESPONSE)(message, 9)
    assert b"".join(sliced_encoder(cls, version)(message, 9)) == whole[4:]


@settings(max_examples=500, deadline=None)
@given(case=st.sampled_from(CASES), body=st.binary(max_size=200))
def test_bad_bytes_are_refused_in_the_same_words(case: tuple[type, int], body: bytes) -> None:
    assert outcome(*case, body, sliced=True) == outcome(*case, body, sliced=False)


def test_a_slice_reads_so_many_items() -> None:
    request = DeleteGroupsRequest(groups_names=["g"] * (10 * SLICE_ITEMS))
    message, slices = decode(
        DeleteGroupsRequest, 2, encoder(DeleteGroupsRequest, 2, Framing.BARE)(request)
    )
    assert message == request
    assert slices == 11


def test_records_of_a_request_are_not_copied() -> None:
    data = PartitionProduceData(index=0, records=b"records")
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(partition_data=[data])])
    body = encoder(ProduceRequest, 9, Framing.BARE)(request)
    decoded, _ = decode(ProduceRequest, 9, body)
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is body
    assert bytes(records) == b"records"


def test_items_in_items_count_as_well() -> None:
    topics = [OffsetFetchRequestTopics(name="t") for _ in range(SLICE_ITEMS // 2)]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics) for _ in range(8)]
    request = OffsetFetchRequest(groups=groups)
    message, slices = decode(
        OffsetFetchRequest, 8, encoder(OffsetFetchRequest, 8, Framing.BARE)(request)
    )
    assert message == request
    assert slices >= 5


def test_numbers_are_read_and_written_in_slices() -> None:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[*range(5 * SLICE_NUMBERS)])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    message, slices = decode(
        OffsetFetchRequest, 8, encoder(OffsetFetchRequest, 8, Framing.BARE)(request)
    )
    assert message == request
    assert slices == 5


@pytest.mark.parametrize("per_topic", [1, 100_000])
def test_a_slice_writes_so_many_pieces(per_topic: int) -> None:
    partitions = [OffsetCommitResponsePartition(partition_index=n) for n in range(per_topic)]
    topics = [
        OffsetCommitResponseTopic(name="t", partitions=partitions)
        for _ in range(100_000 // per_topic)
    ]
    response = OffsetCommitResponse(topics=topics)
    pieces = list(sliced_response_encoder(ApiKey.OFFSET_COMMIT, 8)(response, 9))
    assert b"".join(pieces) == response_encoder(ApiKey.OFFSET_COMMIT, 8)(response, 9)[4:]
    assert len(pieces) >= 100_000 // SLICE_PIECES
    assert max(map(len, pieces)) < 20 * SLICE_PIECES


def test_a_message_that_cannot_be_written_is_named() -> None:
    response = DescribeGroupsResponse(groups=[DescribedGroup(group_id=None)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="DescribeGroupsResponse v5: "):
        list(sliced_response_encoder(ApiKey.DESCRIBE_GROUPS, 5)(response, 9))


@pytest.mark.parametrize("sliced", [False, True])
def test_more_unknown_tags_than_anybody_needs_are_refused(sliced: bool) -> None:
    body = encoder(MetadataRequest, 9, Framing.BARE)(MetadataRequest(topics=[]))[:-1]
    for count in (MOST_TAGS, MOST_TAGS + 1):
        tags = b"".join(write_varint(tag) + b"\0" for tag in range(count))
        result = outcome(MetadataRequest, 9, body + write_varint(count) + tags, sliced)
        if count == MOST_TAGS:
            assert not isinstance(result, str)
        else:
            assert result == "1001 tagged fields, more than 1000"


def test_every_api_has_a_sliced_codec() -> None:
    for api in APIS.values():
        for version in range(api.served[0], api.served[1] + 1):
            with contextlib.closing(sliced_decoder(api.request_type, version)(b"", 0, 0)):
                sliced_encoder(api.response_type, version)
