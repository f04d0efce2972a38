"""DescribeTopicPartitions: pages, where they begin and end, and what is asked for in vain."""

import pytest

from groupkeeper.apis import describe_topic_partitions
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.topics.scene import Scene

GROUPS = "__consumer_offsets"
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def ask(scene, *names, cursor=None, limit=2000):
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await scene.ask(0, request)


def told(page):
    """Topics with the indexes of their partitions, or their errors; and where to go on."""
    topics = {
        topic.name: topic.error_code or [p.partition_index for p in topic.partitions]
        for topic in page.topics
    }
    following = page.next_cursor
    return topics, following and (following.topic_name, following.partition_index)


@pytest.fixture
async def three(scene):
    """Besides t with two partitions: a with three, b with one."""
    await scene.create("b", 1)
    await scene.create("a", 3)
    return scene


async def test_all_topics_in_the_order_of_their_names(three):
    page = await ask(three)
    assert [topic.name for topic in page.topics] == [GROUPS, "__group_events", "a", "b", "t"]
    assert [topic.is_internal for topic in page.topics] == [True, True, False, False, False]
    assert page.next_cursor is None


async def test_some_topics_each_once_and_in_order(three):
    assert told(await ask(three, "t", "a", "t")) == ({"a": [0, 1, 2], "t": [0, 1]}, None)


@pytest.mark.parametrize(
    ("limit", "page", "following"),
    [
        (1, {"a": [0]}, ("a", 1)),
        (3, {"a": [0, 1, 2]}, ("b", 0)),
        (4, {"a": [0, 1, 2], "b": [0]}, ("t", 0)),
        (6, {"a": [0, 1, 2], "b": [0], "t": [0, 1]}, None),
        (0, {"a": [0]}, ("a", 1)),
        (-1, {"a": [0]}, ("a", 1)),
    ],
)
async def test_a_page_ends_where_its_limit_is(three, limit, page, following):
    assert told(await ask(three, "a", "b", "t", limit=limit)) == (page, following)


async def test_page_after_page_gives_everything_once(three):
    pages, cursor = [], None
    while cursor or not pages:
        topics, cursor = told(await ask(three, "a", "b", "t", limit=2, cursor=cursor))
        pages.append(topics)
    assert pages == [{"a": [0, 1]}, {"a": [2], "b": [0]}, {"t": [0, 1]}]


async def test_a_client_cannot_ask_for_more_than_a_page(three, monkeypatch):
    monkeypatch.setattr(describe_topic_partitions, "MAX_PAGE", 2)
    assert told(await ask(three, "a", limit=2000)) == ({"a": [0, 1]}, ("a", 2))


@pytest.mark.parametrize("index", [3, 99])
async def test_a_cursor_behind_a_topic_gives_it_without_partitions(three, index):
    page = {"a": [], "b": [0]}
    assert told(await ask(three, "a", "b", cursor=("a", index))) == (page, None)


async def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next(three):
    assert told(await ask(three, cursor=("aa", 5))) == ({"b": [0], "t": [0, 1]}, None)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_a_cursor_that_makes_no_sense_is_refused(three, cursor):
    refused = {"a": ErrorCode.INVALID_REQUEST, "t": ErrorCode.INVALID_REQUEST}
    assert told(await ask(three, "a", "t", cursor=cursor)) == (refused, None)


async def test_topics_that_are_not_there_take_no_room(three):
    page = {"aa": UNKNOWN, "b": [0]}
    assert told(await ask(three, "t", "aa", "b", limit=1)) == (page, ("t", 0))


async def test_an_illegal_name(scene: Scene) -> None:
    assert told(await ask(scene, "a b")) == ({"a b": ErrorCode.INVALID_TOPIC_EXCEPTION}, None)
