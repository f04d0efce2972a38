"""Deletions that take many batches, and a crash at any point between them.

A group that DeleteGroups deletes is then there without some of its offsets, and can be deleted
again; nothing else is missing. A topic's offsets are all there with the topic, or all gone without
it.
"""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.record_batch import iter_batches
from tests.support.requests import Places, commit_request, create_request
from tests.support.served import Client, Serve, Served

MODES = ["lose", "keep", "tear"]
MOST_BYTES = 12_000
HUGE: Places = {("huge", n): n for n in range(120)}
OTHER: Places = {("orders", 0): 5, ("huge", 3): 3}
PIECES = 6
"""At least so many batches of the larger deletion's tombstones."""


def filled(serve: Serve) -> Served:
    """A huge group and a small one, in the same partition; batches of 12,000 bytes at most."""
    served = serve("offsets.topic.num.partitions=1", f"message.max.bytes={MOST_BYTES}")
    client = served.client()
    client.call(4, create_request("huge", partitions=120))
    places = list(HUGE)
    for at in range(0, len(places), 40):
        some = {place: HUGE[place] for place in places[at : at + 40]}
        client.call(8, commit_request(some, "huge"))
    client.call(8, commit_request(OTHER, "other"))
    assert (client.fetched("huge"), client.fetched("other")) == (HUGE, OTHER)
    served.advance(1)
    return served


def delete_group(client: Client) -> int:
    answer = client.call(2, DeleteGroupsRequest(groups_names=["huge"]))
    return int(answer.results[0].error_code)


def crashed(served: Served, at: int, mode: str, version: int, request: Message) -> bool:
    """Ask, and lose the process in a call of the disk; True if it was answered before."""
    client = served.client()
    served.disk.crash_at = served.disk.calls + at
    client.send(version, request)
    served.until(lambda: bool(client.frames) or served.disk.dead)
    answered = bool(client.frames)
    served.disk.crash_at = None
    served.recover(mode)
    return answered


def test_no_batch_is_larger_than_the_limit(serve: Serve) -> None:
    served = filled(serve)
    assert delete_group(served.client()) == 0
    request = DeleteTopicsRequest(topic_names=["huge"], timeout_ms=1000)
    assert served.client().call(5, request).responses[0].error_code == 0
    served.stop()
    data = served.disk.contents("data/__consumer_offsets-0/00000000000000000000.log")
    sizes = [header.size for header in iter_batches(data)]
    assert len(sizes) > PIECES and max(sizes) <= MOST_BYTES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_crash_between_the_pieces_of_a_group(serve: Serve, mode: str) -> None:
    sizes = set()
    for at in range(1, 100):
        served = filled(serve)
        request = DeleteGroupsRequest(groups_names=["huge"])
        answered = crashed(served, at, mode, 2, request)
        client = served.client()
        left = client.fetched("huge")
        sizes.add(len(left))
        assert left.items() <= HUGE.items(), at
        assert client.fetched("other") == OTHER, at
        again = delete_group(client)
        if answered:
            assert (left, again) == ({}, ErrorCode.GROUP_ID_NOT_FOUND)
            break
        assert again == (0 if left else ErrorCode.GROUP_ID_NOT_FOUND), at
        assert client.fetched("huge") == {}
        served.recover()
        assert served.client().fetched("huge") == {}
        assert served.client().fetched("other") == OTHER
    assert answered and {0, len(HUGE)} < sizes and len(sizes) >= PIECES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_crash_between_the_pieces_of_a_topic(serve: Serve, mode: str) -> None:
    outcomes = set()
    rest = {place: offset for place, offset in OTHER.items() if place[0] != "huge"}
    for at in range(1, 100):
        served = filled(serve)
        request = DeleteTopicsRequest(topic_names=["huge"], timeout_ms=1000)
        answered = crashed(served, at, mode, 5, request)
        served.advance(1)
        client = served.client()
        topics = {topic.name for topic in client.call(8, MetadataRequest(topics=None)).topics}
        found = client.fetched("huge"), client.fetched("other")
        assert found == ((HUGE, OTHER) if "huge" in topics else ({}, rest)), at
        outcomes.add("huge" in topics)
        if answered:
            break
    assert answered and outcomes == {True, False} and at > PIECES
