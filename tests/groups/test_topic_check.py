"""Which topics and partitions of a commit exist."""

from groupkeeper.groups.topic_check import all_known, overlay
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.requests import Places, codes_of, commit_request

COUNTS = {"orders": 2, "payments": 1}


def topics(*places: tuple[str, int]) -> list[OffsetCommitRequestTopic]:
    return commit_request(dict.fromkeys(places, 0)).topics


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
    assert all_known(topics(("orders", 0), ("orders", 1), ("payments", 0)), COUNTS.get, 500)


def test_an_unknown_topic_or_an_index_out_of_range_does_not() -> None:
    for missing in ("refunds", 0), ("orders", 2), ("orders", -1), ("payments", 1):
        assert not all_known(topics(("orders", 0), missing), COUNTS.get, 500)


def test_real_answers_lie_over_the_refusals_in_the_order_of_the_request() -> None:
    everything = response({("b", 1): 3, ("b", 0): 3, ("a", 0): 3})
    merged = overlay(everything, response({("a", 0): 0, ("b", 0): 25}))
    assert list(codes_of(merged).items()) == [(("b", 1), 3), (("b", 0), 25), (("a", 0), 0)]


def test_very_many_take_the_other_way_whether_they_exist_or_not() -> None:
    asked = topics(("orders", 0), ("orders", 1), ("payments", 0))
    assert all_known(asked, COUNTS.get, 3)
    assert not all_known(asked, COUNTS.get, 2)
