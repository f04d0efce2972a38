"""No batch exceeds `message.max.bytes`, whatever is asked. The scene looks at every one."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from groupkeeper.coordinator.commit import PreparedCommit
from groupkeeper.coordinator.facts import LimitReached
from groupkeeper.coordinator.records import group_key
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_group_value,
    encode_member,
)
from tests.support.scene import WALL, Call, Scene

DAY = 24 * 3_600_000
LIMITS = [0, 100, 150, 250, 400, 1_000, 5_000, 1_048_588]
LENGTHS = st.sampled_from([1, 20, 60, 150, 330, 900])
BYTES = st.sampled_from([0, 10, 100, 300, 900, 5_000])
COUNTS = st.sampled_from([1, 2, 5, 12, 40])
TOPICS = st.sampled_from(["t", "u" * 100])
NAMES = st.sampled_from(["ann", "BEA", "CID", "dot"])


class Asking(RuleBasedStateMachine):
    """Groups of long names, commits and plans of all sizes, and all that writes tombstones."""

    @initialize(limit=st.sampled_from(LIMITS))
    def open(self, limit: int) -> None:
        self.scene = Scene(
            initial_rebalance_delay_ms=0, offsets_retention_ms=DAY, message_max_bytes=limit
        )

    # -- members ---------------------------------------------------------------------------------

    @rule(name=NAMES, length=LENGTHS, size=BYTES, timeout=st.sampled_from([0, 60_000]))
    def join(self, name: str, length: int, size: int, timeout: int) -> None:
        self.scene.join(name, **self._words(name, length, size, timeout))

    @rule(name=NAMES, size=BYTES)
    def restart(self, name: str, size: int) -> None:
        self.scene.restart(name, protocols={"range": bytes(size)})

    @rule(length=LENGTHS, size=BYTES, share=BYTES, names=st.lists(NAMES, min_size=1, unique=True))
    def form(self, length: int, size: int, share: int, names: list[str]) -> None:
        for name in names:
            self.scene.join(name, **self._words(name, length, size, 60_000))
        for name in names:
            self.scene.join(name)
        for name in names:
            plan = dict.fromkeys(names, bytes(share))
            self.scene.sync(name, plan, group_id=self._group(length))

    @rule(names=st.lists(NAMES, min_size=1, unique=True), length=LENGTHS)
    def leave(self, names: list[str], length: int) -> None:
        entries: list[tuple[str, str | None]] = [
            (self.scene.person(n).member_id, None) for n in names if n.islower()
        ]
        entries += [("", n) for n in names if n.isupper()]
        self.scene.leave_as(names[0], *entries, group=self._group(length))

    # -- offsets ---------------------------------------------------------------------------------

    @rule(length=LENGTHS, topic=TOPICS, count=COUNTS, text=BYTES, prepared=st.booleans())
    def commit(self, length: int, topic: str, count: int, text: int, prepared: bool) -> None:
        for first in range(0, 40, count):
            rows = [
                OffsetCommitRequestPartition(
                    partition_index=n, committed_offset=1, committed_metadata="x" * min(text, 4_000)
                )
                for n in range(first, first + count)
            ]
            topics = [OffsetCommitRequestTopic(name=topic, partitions=rows)]
            request = OffsetCommitRequest(group_id=self._group(length), topics=topics)
            if prepared:
                self._prepared(request)
            else:
                self.scene.ask("admin", request, 8)

    @rule(length=LENGTHS, topic=TOPICS, count=COUNTS)
    def delete_offsets(self, length: int, topic: str, count: int) -> None:
        self.scene.delete_offsets(topic, *range(count), group=self._group(length))

    @rule(lengths=st.lists(LENGTHS, min_size=1, unique=True))
    def delete_groups(self, lengths: list[int]) -> None:
        self.scene.delete(*map(self._group, lengths))
        self.scene.advance(1_000)

    @rule(topics=st.lists(TOPICS, min_size=1, unique=True))
    def forget_topics(self, topics: list[str]) -> None:
        self.scene.forget_topics(*topics)

    # -- time and disaster -------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 10_000, 60_000, DAY + 600_000]))
    def time_goes_by(self, ms: int) -> None:
        self.scene.advance(ms)

    @rule()
    def the_disk_is_slow(self) -> None:
        self.scene.hold = True

    @rule()
    def the_disk_catches_up(self) -> None:
        self.scene.hold = False
        self.scene.flush()

    @rule(size=st.sampled_from([1, 2, 100]))
    def it_starts_over(self, size: int) -> None:
        """With another limit of members, beyond which groups shrink."""
        self.scene.config = replace(self.scene.config, max_size=size)
        self.scene.crash()

    # -- helpers -----------------------------------------------------------------------------------

    def _group(self, length: int) -> str:
        return "g" * length

    def _words(self, name: str, length: int, size: int, timeout: int) -> dict[str, Any]:
        return {
            "group": self._group(length),
            "instance": name if name.isupper() else None,
            "protocols": {"range": bytes(size), "x" * 200: b""},
            "rebalance": timeout,
        }

    def _prepared(self, request: OffsetCommitRequest) -> None:
        commit = PreparedCommit(request, self.scene.wall, self.scene.config)
        for topic in request.topics:
            commit.add(topic, 1_000, False)
        self.scene.hand_in(Call("admin", "OffsetCommit", 8, 8), commit)


TestAsking = Asking.TestCase
TestAsking.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


# -- one by one ------------------------------------------------------------------------------------


def test_offsets_that_were_committed_bit_by_bit_and_are_deleted_at_once() -> None:
    scene = Scene(message_max_bytes=1_000)
    for partition in range(40):
        assert scene.commit("admin", partitions=(partition,), group_id="g" * 300).outcome == "NONE"
    assert scene.delete_offsets("t", *range(40), group="g" * 300).outcome == "NONE"
    scene.crash()
    assert scene.fetch(None, group="g" * 300).topics == []


def test_a_group_whose_record_does_not_even_fit_without_members_is_refused() -> None:
    scene = Scene(message_max_bytes=500)
    assert scene.knock("ann", group="g" * 450).outcome == "UNKNOWN_SERVER_ERROR"
    assert scene.knock("ann", group="g" * 50, type="t" * 400).outcome == "UNKNOWN_SERVER_ERROR"
    assert [fact.limit for fact in scene.noted(LimitReached)] == ["message_max_bytes"] * 2
    assert scene.knock("ann", group="g" * 300, type="t").outcome == "MEMBER_ID_REQUIRED"


@pytest.mark.parametrize("limit", [400, 5_000])
def test_many_groups_that_shrink_to_nothing_at_a_start(limit: int) -> None:
    """Members without any patience, as another coordinator may have written them."""
    members = [
        encode_member(MemberMetadata(member_id=each, session_timeout=10_000, rebalance_timeout=0))
        for each in ("ann", "bea")
    ]
    value = encode_group_value(GroupMetadataValue(protocol_type="consumer", generation=1), members)
    log = [(group_key(f"{number}".rjust(30, "g")), value) for number in range(200)]
    scene = Scene(message_max_bytes=limit, max_size=1)
    scene.load(encode_batch(0, 0, WALL, log))
    assert set(scene.groups().values()) == {"Empty"}
