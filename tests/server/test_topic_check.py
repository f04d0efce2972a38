"""Which topics and partitions of a commit exist."""

from groupkeeper.server.topic_check import all_known, answerable, known_of, overlay
from protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.requests import Places, codes_of, commit_request

COUNTS = {"orders": 2, "payments": 1}


def topics(*places: tuple[str, int]) -> list[OffsetCommitRequestTopic]:
    return commit_request(dict.fromkeys(places, 0)).topics


def empty(topic: str) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name=topic, partitions=[])


def response(codes: Places) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for (name, index), code in codes.items()
                    if name == topic
                ],
            )
            for topic in dict.fromkeys(name for name, _ in codes)
        ]
    )


def test_everything_exists() -> None:
    assert all_known(topics(("orders", 0), ("orders", 1), ("payments", 0)), COUNTS.get)


def test_an_unknown_topic_or_an_index_out_of_range_does_not() -> None:
    for missing in ("refunds", 0), ("orders", 2), ("orders", -1), ("payments", 1):
        assert not all_known(topics(("orders", 0), missing), COUNTS.get)


def test_a_topic_without_partitions_is_answered_only_if_it_does_not_exist() -> None:
    asked = [*topics(("payments", 0)), *map(empty, ("orders", "refunds"))]
    assert not all_known(asked[:2], COUNTS.get)
    assert [t.name for t in answerable(asked, COUNTS.get)] == ["payments", "refunds"]


def test_only_what_exists_is_kept_in_order() -> None:
    asked = topics(("orders", 2), ("orders", 1), ("refunds", 0), ("payments", 0), ("orders", -1))
    kept = known_of(asked, COUNTS.get)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in kept] == [
        ("orders", [1]),
        ("payments", [0]),
    ]


def test_the_topics_of_the_request_itself_are_left_alone() -> None:
    asked = commit_request({("orders", 5): 0})
    known_of(asked.topics, COUNTS.get)
    assert len(asked.topics[0].partitions) == 1


def test_real_answers_lie_over_the_refusals_in_the_order_of_the_request() -> None:
    everything = response({("b", 1): 3, ("b", 0): 3, ("a", 0): 3})
    merged = overlay(everything, response({("a", 0): 0, ("b", 0): 25}))
    assert list(codes_of(merged).items()) == [(("b", 1), 3), (("b", 0), 25), (("a", 0), 0)]
