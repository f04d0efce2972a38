"""The generator's hand-written requests and answers, beside the product's codec."""

import pytest

from benchmarks import wire
from groupkeeper.protocol import framing, registry
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorResponse
from groupkeeper.protocol.messages.heartbeat import HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from groupkeeper.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupResponse

WHO = (b"group", 7, b"member", b"instance")


def decoded(request: wire.Request):
    frame = wire.frame(request, 42)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, at = framing.read_request_header(frame, 4, len(frame))
    assert (header.correlation_id, header.client_id) == (42, wire.CLIENT_ID.decode())
    return registry.request_decoder(header.api_key, header.api_version)(frame, at, len(frame))


def encoded(key: int, version: int, response) -> bytes:
    return registry.response_encoder(key, version)(response, 0)


@pytest.mark.parametrize(
    "request_",
    [
        wire.api_versions(),
        wire.find_coordinator(b"group"),
        wire.create_topic(b"topic", 6),
        wire.join_group(b"group", b"", None),
        wire.join_group(b"group", b"", b"instance", version=9),
        wire.sync_group(WHO, [(b"member", wire.assignment(3))]),
        wire.heartbeat(*WHO),
        wire.leave_group(b"group", [(b"member", None)]),
        wire.offset_commit(b"group", 7, b"member", 20),
        wire.offset_fetch(b"group", 20),
    ],
    ids=lambda request: f"{request.key}v{request.version}",
)
def test_every_request_is_one_that_the_codec_reads(request_):
    decoded(request_)


def test_a_join_carries_its_fields():
    request = decoded(wire.join_group(b"group", b"member", b"instance"))
    assert (request.group_id, request.member_id, request.group_instance_id) == (
        "group",
        "member",
        "instance",
    )
    assert request.session_timeout_ms == wire.SESSION_MS
    assert [(p.name, p.metadata) for p in request.protocols] == [("range", wire.METADATA)]


def test_a_commit_carries_all_its_partitions():
    (topic,) = decoded(wire.offset_commit(b"group", 7, b"member", 20)).topics
    assert [p.partition_index for p in topic.partitions] == list(range(20))


def test_a_leader_is_told_the_members():
    members = [JoinGroupResponseMember(member_id=id_, metadata=b"m") for id_ in ("a", "b")]
    response = JoinGroupResponse(generation_id=3, leader="a", member_id="a", members=members)
    answer = wire.joined(encoded(ApiKey.JOIN_GROUP, 9, response)[8:], version=9)
    assert answer == wire.Joined(0, 3, True, False, b"a", [b"a", b"b"])


def test_a_follower_is_not():
    response = JoinGroupResponse(generation_id=3, leader="a", member_id="b")
    assert not wire.joined(encoded(ApiKey.JOIN_GROUP, 7, response)[8:]).leads


@pytest.mark.parametrize(
    ("read", "key", "version", "response"),
    [
        (wire.beaten, ApiKey.HEARTBEAT, 4, HeartbeatResponse(error_code=27)),
        (wire.found, ApiKey.FIND_COORDINATOR, 3, FindCoordinatorResponse(error_code=27)),
        (lambda body: wire.synced(body)[0], ApiKey.SYNC_GROUP, 5, SyncGroupResponse(error_code=27)),
        (
            lambda body: wire.fetched(body)[0],
            ApiKey.OFFSET_FETCH,
            7,
            OffsetFetchResponse(error_code=27),
        ),
        (wire.left, ApiKey.LEAVE_GROUP, 4, LeaveGroupResponse(error_code=27)),
        (
            wire.left,
            ApiKey.LEAVE_GROUP,
            4,
            LeaveGroupResponse(members=[MemberResponse(error_code=27)]),
        ),
    ],
)
def test_error_codes_are_found(read, key, version, response):
    assert read(encoded(key, version, response)[8:]) == 27


def test_fetched_offsets_are_read():
    partitions = [
        OffsetFetchResponsePartitions(partition_index=n, committed_offset=10 * n) for n in (0, 1)
    ]
    response = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopics(name="bench", partitions=partitions)]
    )
    assert wire.fetched(encoded(ApiKey.OFFSET_FETCH, 7, response)[8:]) == (0, {0: 0, 1: 10})


def test_the_expected_answers_are_what_the_codec_writes():
    partitions = [OffsetCommitResponsePartition(partition_index=n) for n in range(20)]
    topic = OffsetCommitResponseTopic(name="bench", partitions=partitions)
    committed = OffsetCommitResponse(topics=[topic])
    assert wire.heartbeat_answer() == encoded(ApiKey.HEARTBEAT, 4, HeartbeatResponse())
    assert wire.offset_commit_answer(20) == encoded(ApiKey.OFFSET_COMMIT, 8, committed)


def test_an_answer_that_ends_early_is_wrong():
    with pytest.raises(wire.WrongAnswerError, match="ends early"):
        wire.beaten(b"\0\0\0\0\0")
