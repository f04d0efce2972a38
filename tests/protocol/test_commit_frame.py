"""The offsets in the bytes of OffsetCommits are where the codec finds them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.commit_frame import FIRST_VERSION, offsets_at
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.codecs import request_encoder

names = st.text(max_size=200)
places = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.integers(-1, 1 << 30),
    committed_offset=st.integers(-(1 << 63), (1 << 63) - 1),
    committed_metadata=st.none() | names,
)
topics = st.lists(
    st.builds(OffsetCommitRequestTopic, name=names, partitions=st.lists(places, max_size=4)),
    max_size=3,
)


@pytest.mark.parametrize("version", range(FIRST_VERSION, 10))
@given(group=names, member=names, instance=st.none() | names, topics=topics)
def test_offsets_are_where_the_codec_writes_them(
    version: int, group: str, member: str, instance: str | None, topics: list[object]
) -> None:
    request = OffsetCommitRequest(group_id=group, member_id=member, topics=topics)
    if version >= 7:
        request.group_instance_id = instance
    data = request_encoder(ApiKey.OFFSET_COMMIT, version)(request, 1, "client")
    _, body = read_request_header(data, 4, len(data))
    found = offsets_at(data, body, version, 100)
    assert found is not None
    expected = [each.committed_offset for topic in request.topics for each in topic.partitions]
    assert [struct.unpack_from(">q", data, at)[0] for at in found] == expected
