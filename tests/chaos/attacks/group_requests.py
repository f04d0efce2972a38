"""Well-formed requests about groups that cost the server more than the client.

Where a request is larger than a server need accept, one that just fits comes after it.
"""

import struct

from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.chaos.attacks.support import (
    FITTING,
    SETTLE_SETTINGS,
    WIDE,
    committed,
    deliver,
    each_of,
    fetch_page,
    names,
    outcome,
    roster,
    topics,
)
from tests.chaos.target import BUDGET_MIB, Attack, Limits, Steps, Target, check
from tests.chaos.wire import Client
from tests.support.requests import commit_request, fetch_request, join_request
from tests.support.wire import frame

FAMILY = "group requests"
ANSWERS = Limits(growth_mib=BUDGET_MIB + 64)
"""For requests whose answers may fill the budget of unsent answers."""


def _describe(groups: list[str]) -> bytes:
    return frame(5, DescribeGroupsRequest(groups=groups))


def describe_empty(target: Target) -> Steps:
    large, fitting = _describe([""] * 5_000_000), _describe([""] * FITTING)
    yield
    return each_of(target, of_5_MB=large, of_4_MB=fitting)


def describe_distinct(target: Target) -> Steps:
    large = _describe(names("g", 2_000_000))
    yield
    return each_of(target, of_18_MB=large)


def describe_many(target: Target) -> Steps:
    large, fitting = _describe(names("g", 400_000)), _describe(names("g", 230_000))
    yield
    return each_of(target, of_400k=large, of_230k=fitting)


def describe_repeated(target: Target) -> Steps:
    members = roster(target, "crowd", 200)
    small, large = _describe(["crowd"] * 10_000), _describe(["crowd"] * 300_000)
    yield
    said = each_of(target, of_10k=small, of_300k=large)
    for client, _ in members:
        client.close()
    return said


def offset_fetch_repeated(target: Target) -> Steps:
    topics(target, ["t"], 9_000)
    committed(target, ["g"], {("t", index): 1 for index in range(9_000)})
    few = frame(8, fetch_request(*["g"] * 200))
    many = frame(8, fetch_request(*["g"] * 100_000))
    yield
    return each_of(target, of_200=few, of_100k=many)


def offset_fetch_many(target: Target) -> Steps:
    data = frame(8, fetch_request(*names("g", 50_000)))
    yield
    return each_of(target, of_50k=data)


def offset_fetch_pipelined(target: Target) -> Steps:
    """One large group asked for again and again."""
    topics(target, ["t"], 9_000)
    committed(target, ["g"], {("t", index): 1 for index in range(9_000)})
    data = frame(8, fetch_request("g"))
    yield
    return outcome(deliver(target, data * 200, 200))


def delete_groups(target: Target) -> Steps:
    data = frame(2, DeleteGroupsRequest(groups_names=names("g", 100_000)))
    yield
    return each_of(target, of_100k=data)


def delete_huge_group(target: Target) -> Steps:
    topics(target, names("t", 10), WIDE)
    for name in names("t", 10):
        committed(target, ["huge"], {(name, index): 1 for index in range(WIDE)})
    data = frame(2, DeleteGroupsRequest(groups_names=["huge"]))
    yield
    return each_of(target, of_99k_offsets=data)


def forget_topic(target: Target) -> Steps:
    """Twenty groups with offsets of every partition of a topic that is deleted."""
    topics(target, ["t"], WIDE)
    committed(target, names("g", 20), {("t", index): 1 for index in range(WIDE)})
    data = frame(3, DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000))
    yield
    return each_of(target, deleted=data)


def delete_topics(target: Target) -> Steps:
    topics(target, names("t", 4_900))
    committed(target, names("group", 10_000), {("t1", 0): 1})
    data = frame(3, DeleteTopicsRequest(topic_names=names("t", 4_900), timeout_ms=30_000))
    yield
    return each_of(target, of_4900=data)


def offset_commit(target: Target) -> Steps:
    topics(target, names("t", 11), WIDE)
    partitions = [(f"t{at // WIDE}", at % WIDE) for at in range(108_000)]
    large = frame(2, commit_request(dict.fromkeys(partitions, 1), "g"))
    fitting = frame(7, commit_request(dict.fromkeys(partitions[:80_000], 1), "g"))
    yield
    return each_of(target, of_108k=large, of_80k=fitting)


def join_topics(target: Target) -> Steps:
    """A subscription to 500,000 topics, and another to as many as fit."""

    def joining(count: int) -> bytes:
        listed = b"".join(struct.pack(">h", 6) + b"t%05d" % (at % 100_000) for at in range(count))
        request = join_request("subscribed")
        request.protocols[0].metadata = struct.pack(">hi", 0, count) + listed + b"\xff" * 4
        return frame(3, request)

    large, fitting = joining(500_000), joining(250_000)
    yield
    return each_of(target, of_500k=large, of_250k=fitting)


def join_metadata(target: Target) -> Steps:
    request: JoinGroupRequest = join_request("fat")
    request.protocols[0].metadata = bytes(90_000_000)
    large = frame(3, request)
    request.protocols[0].metadata = bytes(FITTING)
    fitting = frame(3, request)
    yield
    return each_of(target, of_90_MB=large, of_4_MB=fitting)


def leave_group(target: Target) -> Steps:
    members = [MemberIdentity(member_id=who) for who in names("m", 100_000)]
    data = frame(4, LeaveGroupRequest(group_id="g", members=members))
    yield
    return each_of(target, of_100k=data)


def list_groups(target: Target) -> Steps:
    """100,000 groups with an offset each; everything that lists them."""
    topics(target, ["t"])
    committed(target, names("g", 100_000), {("t", 0): 1})
    yield
    said = outcome(deliver(target, frame(4, ListGroupsRequest()) * 5, 5))
    for path in ("/metrics", "/readyz"):
        status = fetch_page(target, path, 5.0)
        check(status == 200, f"{path}: {status or 'no answer'}")
    client = Client(target.kafka)
    count = len(client.call(4, ListGroupsRequest()).groups)
    return f"{count} groups listed, {said}"


ATTACKS = (
    Attack(
        "describe-empty", FAMILY, "DescribeGroups of 5 M empty ids, then of 4 M", describe_empty
    ),
    Attack("describe-distinct", FAMILY, "DescribeGroups of 2 M distinct ids", describe_distinct),
    Attack(
        "describe-many",
        FAMILY,
        "DescribeGroups of 400,000 and 230,000 ids",
        describe_many,
        limits=Limits(growth_mib=128),  # 3.6 MB as objects, and their answer
    ),
    Attack(
        "describe-repeated",
        FAMILY,
        "DescribeGroups of one group of 200, named 10,000 and 300,000 times",
        describe_repeated,
        settings=SETTLE_SETTINGS,
        limits=ANSWERS,
    ),
    Attack(
        "offset-fetch-repeated",
        FAMILY,
        "OffsetFetch of one group of 9,000 offsets, named 200 and 100,000 times",
        offset_fetch_repeated,
        limits=ANSWERS,
    ),
    Attack("offset-fetch-many", FAMILY, "OffsetFetch of 50,000 groups", offset_fetch_many),
    Attack(
        "offset-fetch-pipelined",
        FAMILY,
        "200 pipelined OffsetFetch of one group of 9,000 offsets",
        offset_fetch_pipelined,
        limits=ANSWERS,
    ),
    Attack("delete-groups", FAMILY, "DeleteGroups of 100,000 ids", delete_groups),
    Attack(
        "delete-huge-group", FAMILY, "DeleteGroups of one with 99,000 offsets", delete_huge_group
    ),
    Attack(
        "forget-topic",
        FAMILY,
        "DeleteTopics of one that 20 groups have 9,900 offsets of",
        forget_topic,
    ),
    Attack("delete-topics", FAMILY, "DeleteTopics of 4,900 beside 10,000 groups", delete_topics),
    Attack(
        "offset-commit",
        FAMILY,
        "OffsetCommit of 108,000 and 80,000 partitions",
        offset_commit,
        limits=Limits(growth_mib=128, kept_mib=96),  # the offsets are kept
    ),
    Attack(
        "join-topics", FAMILY, "JoinGroup subscribed to 500,000 and 250,000 topics", join_topics
    ),
    Attack(
        "join-metadata",
        FAMILY,
        "JoinGroup with 90 MB and 4 MB of metadata",
        join_metadata,
        limits=Limits(growth_mib=64 + 90),  # a frame is read up to socket.request.max.bytes
    ),
    Attack("leave-group", FAMILY, "LeaveGroup of 100,000 members", leave_group),
    Attack("list-groups", FAMILY, "ListGroups, /metrics, /readyz with 100,000 groups", list_groups),
)
