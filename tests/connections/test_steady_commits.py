"""Commits that repeat take a short cut, which only their duration shows."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.connections import steady_commits
from groupkeeper.coordinator import steady_commit
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.requests import commit_request, fetch_request, heartbeat, join_request
from tests.support.served import Client, Served, settle
from tests.support.stored_events import stored, types

PLACES = [("orders", 0), ("orders", 3), ("payments", 1)]


class Member:
    """One member alone in its group, and the connection that its commits come on."""

    def __init__(self, served: Served, version: int = 8, **fields: Any) -> None:
        self.served = served
        self.version = version
        self.client: Client = served.client()
        self.id, self.generation = settle(self.client, **fields)
        self.instance = fields.get("group_instance_id")

    def says(self, offset: int, places: Any = PLACES, metadata: str = "") -> OffsetCommitRequest:
        offsets = {each: offset + number for number, each in enumerate(places)}
        request = commit_request(offsets, "g", self.id, self.generation)
        if self.version >= 7:
            request.group_instance_id = self.instance
        for topic in request.topics:
            for each in topic.partitions:
                each.committed_metadata = metadata
        return request

    def commit(self, offset: int, places: Any = PLACES, metadata: str = "") -> set[int]:
        """The error codes of the answer."""
        return self.errors(self.client.call(self.version, self.says(offset, places, metadata)))

    @staticmethod
    def errors(answer: Any) -> set[int]:
        return {row.error_code for topic in answer.topics for row in topic.partitions}


@pytest.fixture
def member(served: Served) -> Member:
    """It has just sent two commits, the second of which was short."""
    member = Member(served)
    assert member.commit(100) == member.commit(110) == {0}
    return member


@pytest.mark.parametrize("version", range(2, 10))
def test_only_the_first_of_equal_commits_is_decoded(
    served: Served, decoded: list[int], version: int
) -> None:
    member = Member(served, version, **({"group_instance_id": "one"} if version >= 7 else {}))
    decoded.clear()
    for number in range(5):
        answer = member.client.call(version, member.says(100 * number))
        assert [
            (topic.name, row.partition_index, row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        ] == [(*place, 0) for place in PLACES]
        expected = {place: 100 * number + at for at, place in enumerate(PLACES)}
        assert member.client.fetched() == expected
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 1


def test_every_answer_carries_the_correlation_id_of_its_request(member: Member) -> None:
    frames = [member.client.frame(8, member.says(offset)) for offset in range(20)]
    member.client.deliver(*frames)
    for _ in frames:
        assert member.errors(member.client.take()) == {0}  # take() compares the ids
    assert member.client.fetched()["orders", 0] == 19


def test_offsets_of_all_sizes(member: Member) -> None:
    for offset in (0, -1, 1 << 40, (1 << 63) - 3):
        assert member.commit(offset) == {0}
        assert member.client.fetched()["payments", 1] == offset + 2


def test_other_metadata_is_decoded(member: Member, decoded: list[int]) -> None:
    assert member.commit(1, metadata="a") == member.commit(2, metadata="b") == {0}
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 2
    assert member.commit(3, metadata="b") == {0}
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 2
    [group] = member.client.call(8, fetch_request("g")).groups
    assert {row.metadata for topic in group.topics for row in topic.partitions} == {"b"}


def test_another_version_is_decoded(member: Member, decoded: list[int]) -> None:
    member.version = 9  # whose bytes are those of version 8
    assert member.commit(1) == {0}
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 1


def test_other_partitions_are_decoded(member: Member, decoded: list[int]) -> None:
    assert member.commit(1, [("orders", 0), ("orders", 4), ("payments", 1)]) == {0}
    assert member.commit(1, PLACES[:2]) == {0}
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 2


def test_a_client_that_never_repeats_a_commit_pays_for_a_few_short_cuts(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    make = steady_commits.SteadyFrame
    monkeypatch.setattr(
        steady_commits, "SteadyFrame", lambda *parts: made.append(0) or make(*parts)
    )
    member = Member(served)
    for number in range(20):
        assert member.commit(number, metadata=str(number)) == {0}
    assert len(made) == steady_commits.UNUSED_MOST


def test_commits_of_many_partitions_are_decoded(
    served: Served, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_commits, "OFFSETS_MOST", 2)
    member = Member(served)
    decoded.clear()
    assert member.commit(1) == member.commit(2) == {0}
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 2


def test_commits_from_outside_the_membership_are_decoded(
    served: Served, decoded: list[int]
) -> None:
    client = served.client()
    for offset in range(3):
        assert client.commit(offset) == 0
    assert decoded.count(ApiKey.OFFSET_COMMIT) == 3


def test_who_only_commits_stays_a_member(member: Member) -> None:
    for offset in range(40):
        member.served.advance(9)
        assert member.commit(offset) == {0}
    member.served.advance(10.02)
    assert member.served.members() == 0


# -- whatever changes is heard of ------------------------------------------------------------------


def test_a_commit_of_an_old_generation_is_refused(member: Member) -> None:
    other = member.served.client()
    other.join(member_id=member.id)  # the leader again: a rebalance of its own
    assert member.commit(120) == {ErrorCode.ILLEGAL_GENERATION}


def test_a_commit_during_the_join_phase_is_accepted(member: Member) -> None:
    member.served.client().send(3, join_request())
    member.served.advance(0.1)
    assert member.commit(120) == {0}
    assert member.client.fetched()["orders", 0] == 120


def test_who_has_left_is_unknown(member: Member) -> None:
    assert member.served.client().leave(member.id) == 0
    assert member.commit(120) == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_who_was_replaced_is_fenced(served: Served) -> None:
    member = Member(served, group_instance_id="one")
    assert member.commit(1) == member.commit(2) == {0}
    served.client().join(group_instance_id="one")
    assert member.commit(3) == {ErrorCode.FENCED_INSTANCE_ID}


def test_a_deleted_topic_is_unknown(member: Member) -> None:
    request = DeleteTopicsRequest(topic_names=["payments"], timeout_ms=1_000)
    assert member.served.client().call(4, request).responses[0].error_code == 0
    assert member.commit(120) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert member.client.fetched() == {("orders", 0): 120, ("orders", 3): 121}


def test_after_a_restart_and_after_a_failure_offsets_are_there(member: Member) -> None:
    assert member.commit(120) == {0}
    member.served.fail()
    member.served.settled()
    assert member.commit(130) == {0}, "with the same ids, after a load"
    assert member.commit(140) == {0}
    member.served.restart()
    member.served.settled()
    assert member.served.client().fetched()["payments", 1] == 142


def test_what_was_not_written_is_not_acknowledged(member: Member) -> None:
    """The partition fails while a repeated commit waits for the disk."""
    member.client.pipe.write(member.client.frame(8, member.says(500)))
    group = member.served.group()
    member.served.until(lambda: group.offsets["orders"][0][2:10] == (500).to_bytes(8, "big"))
    member.served.fail()
    answer = member.client.take()  # compares the correlation ids
    assert len(member.errors(answer)) == 1 and 0 not in member.errors(answer)


def test_a_bug_costs_the_partition_and_is_answered(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(steady_commit, "rhythm_of_late", lambda member: 1 // 0)
        [error] = member.commit(500)
        assert error in (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR)
    member.served.settled()
    assert member.client.fetched()["orders", 0] == 110


def test_commits_are_counted_in_metrics_and_events(member: Member) -> None:
    served = member.served
    before = served.server.metrics.requests[ApiKey.OFFSET_COMMIT].count()
    for offset in range(7):
        member.commit(offset)
        member.client.beat(member.id, member.generation)
        served.advance(1)
    assert served.server.metrics.requests[ApiKey.OFFSET_COMMIT].count() == before + 7
    served.advance(61)
    [event] = [each for each in stored(served) if each.type == "commits"]
    assert event.fields["requests"] == 9
    assert event.fields["partitions"] == {"orders": [0, 3], "payments": [1]}
    assert event.fields["heartbeats"] == 6, "until the last commit"


# -- nothing differs -------------------------------------------------------------------------------


def _played(play: Callable[[Served], None]) -> tuple[bytes, list[str]]:
    served = Served()
    try:
        play(served)
        served.advance(70)
        served.settled()
        log = served.log()
        data = b"".join(log.batches(0))
        return data, types(served)
    finally:
        served.close()


def _script(served: Served) -> None:
    """Commits with all that may come between them."""
    member = Member(served, group_instance_id="one")
    for number in range(30):
        metadata = "" if number % 10 < 6 else "m"
        assert member.commit(number, metadata=metadata) == {0}
        if number % 7 == 6:
            assert member.client.call(4, heartbeat(member.id, member.generation, instance_id="one"))
        if number % 11 == 10:
            other = served.client()
            other.send(3, join_request())
            served.advance(0.05)
            member.commit(1_000)
            other.hang_up()
            member.id, member.generation = settle(member.client, group_instance_id="one")
        served.advance(0.7)


def test_the_log_and_the_events_are_the_same_without_the_short_cut() -> None:
    short = _played(_script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady_commits, "OFFSETS_MOST", 0)
        assert _played(_script) == short
