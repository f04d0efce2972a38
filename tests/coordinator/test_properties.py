"""Random histories of one partition, with crashes and failed writes, and what must never break.

The scene checks the invariants after every step. Here is what a client may rely on: whatever was
acknowledged is still there, whatever happened in between; and what a reader of facts may rely on:
whatever it was told is in the log. One thing may go: an empty group without
offsets expires (KIP-211), and its generation with it.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from groupkeeper.coordinator.facts import GroupDeleted, OffsetsCommitted, RebalanceCompleted
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.records import group_key
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from tests.support.scene import GROUP, RANGE_RR, Call, Scene, topics

NAMES = st.sampled_from(["ann", "bea", "cid", "DOT", "EVE"])
LISTS = st.sampled_from(
    [{"range": topics("t")}, RANGE_RR, dict(reversed(RANGE_RR.items())), {"range": topics("u")}]
)
PARTITIONS = st.integers(0, 2)
FOREVER_MS = 1_000_000


class Histories(RuleBasedStateMachine):
    """One group that lives through anything, and one (`h`) that may be deleted."""

    @initialize(
        delay=st.sampled_from([0, 3_000]), size=st.sampled_from([2, 100]), room=st.booleans()
    )
    def open(self, delay: int, size: int, room: bool) -> None:
        limit = 1_048_588 if room else 500
        self.scene = Scene(initial_rebalance_delay_ms=delay, max_size=size, message_max_bytes=limit)
        self.commits: list[tuple[int, int, Call]] = []
        self.acknowledged: Counter[int] = Counter()
        self.synced: list[tuple[Call, int]] = []
        self.expiries: list[int] = []
        """How many syncs had been sent each time when the group expired."""

    # -- what members do -------------------------------------------------------------------------

    @rule(name=NAMES, version=st.sampled_from([0, 3, 4, 5, 6, 8, 9]), protocols=LISTS)
    def join(self, name: str, version: int, protocols: dict[str, bytes]) -> None:
        self.scene.join(name, version=version, **self._identity(name), protocols=protocols)

    @rule(name=NAMES)
    def rejoin(self, name: str) -> None:
        self.scene.join(name)

    @rule(name=NAMES, version=st.sampled_from([5, 8, 9]))
    def restart(self, name: str, version: int) -> None:
        self.scene.restart(name, version=version, **self._identity(name))

    @rule(name=NAMES)
    def knock_and_go_away(self, name: str) -> None:
        self.scene.knock(name, as_id="")

    @rule(name=NAMES, members=st.lists(NAMES, max_size=3), share=st.sampled_from([b"s", b"s" * 99]))
    def sync(self, name: str, members: list[str], share: bytes) -> None:
        call = self.scene.sync(name, dict.fromkeys(members, share), version=4)
        self.synced.append((call, self.scene.person(name).generation))

    @rule()
    def everybody_joins_and_syncs(self) -> None:
        for member in list(self._members()):
            self.scene.join(member)
        for member in list(self._members()):
            self.sync(member, [], b"")

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        self.scene.heartbeat(name)

    @rule(names=st.lists(NAMES, min_size=1, max_size=2))
    def leave(self, names: list[str]) -> None:
        self.scene.leave(*names)

    @rule(name=NAMES | st.just("admin"), partition=PARTITIONS)
    def commit(self, name: str, partition: int) -> None:
        offset = len(self.commits)
        call = self.scene.commit(name, offset, partitions=(partition,))
        self.commits.append((partition, offset, call))

    # -- what operators do -------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        self.scene.try_describe()
        self.scene.try_groups()
        self.scene.try_fetch(None)

    @rule(topic=st.sampled_from(["t", "u"]))
    def another_group_comes_and_goes(self, topic: str) -> None:
        self.scene.commit("admin", group_id="h", topic=topic)
        self.scene.delete_offsets(topic, group="h")
        self.scene.delete("h", "unknown")

    # -- time and disaster -------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 2_999, 3_000, 9_999, 10_000, 60_000, 700_000]))
    def time_goes_by(self, ms: int) -> None:
        before = len(self.scene.noted(GroupDeleted))
        self.scene.advance(ms)
        for deleted in self.scene.noted(GroupDeleted)[before:]:
            self._check_expiry(deleted)

    @rule()
    def the_disk_is_slow(self) -> None:
        self.scene.hold = True

    @rule()
    def the_disk_catches_up(self) -> None:
        before = len(self.scene.noted(GroupDeleted))
        self.scene.hold = False
        self.scene.flush()
        self._check_expiries(before)

    @rule()
    def the_disk_takes_one_batch(self) -> None:
        before = len(self.scene.noted(GroupDeleted))
        self.scene.flush_one()
        self._check_expiries(before)

    @rule(fails=st.booleans())
    def it_starts_over(self, fails: bool) -> None:
        self._note_acknowledged()
        if fails:
            self.scene.fail()
        else:
            self.scene.crash()
        for partition, least in self.acknowledged.items():
            assert self._stored(partition) >= least
        assert self._generation() >= self._durable_generation()

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def the_log_tells_the_same(self) -> None:
        """Whenever all is written, a reload gives what is there, but for the round under way."""
        scene = getattr(self, "scene", None)
        if scene is None or scene.partition.has_unwritten or scene.hold:
            return
        other = Scene()
        other.log = list(scene.log)
        other.crash()
        reloaded = other.partition.groups
        for group_id, group in scene.partition.groups.items():
            if group.offsets:
                assert offsets(reloaded[group_id]) == offsets(group)
            if str(group.state) == "Stable":
                assert hard(reloaded[group_id]) == hard(group)

    @invariant()
    def what_was_told_is_in_the_log(self) -> None:
        """Of whatever life: the scene's log is never compacted."""
        scene = getattr(self, "scene", None)
        if scene is None:
            return
        written = [(decode_key(key), value) for key, value in scene.log]
        offsets = [k for k, v in written if v is not None and isinstance(k, OffsetCommitKey)]
        assert sum(fact.offsets for fact in scene.noted(OffsetsCommitted)) <= len(offsets)
        generations = {
            decode_group_value(value).generation
            for key, value in written
            if value is not None and isinstance(key, GroupMetadataKey)
        }
        assert {fact.generation for fact in scene.noted(RebalanceCompleted)} <= generations
        deleted = Counter(f.group for f in scene.noted(GroupDeleted) if f.generation)
        gone = Counter(k.group for k, v in written if v is None and isinstance(k, GroupMetadataKey))
        assert deleted <= gone

    def teardown(self) -> None:
        if hasattr(self, "scene"):
            self.scene.hold = False
            self.scene.flush()
            self.scene.advance(FOREVER_MS)
            assert self.scene.open == [], "whoever waits is answered in the end"

    # -- helpers -----------------------------------------------------------------------------------

    def _identity(self, name: str) -> dict[str, Any]:
        return {"instance": name if name.isupper() else None, "session": 10_000}

    def _members(self) -> list[str]:
        groups = self.scene.partition.groups
        ids = groups["g"].members if "g" in groups else {}
        return [p.name for p in self.scene.people.values() if p.member_id in ids]

    def _note_acknowledged(self) -> None:
        for partition, offset, call in self.commits:
            if call.outcome == "NONE":
                self.acknowledged[partition] = max(self.acknowledged[partition], offset)

    def _check_expiries(self, before: int) -> None:
        """Expiries are told when they are durable; so are deletions that were asked for."""
        for deleted in self.scene.noted(GroupDeleted)[before:]:
            if deleted.why == "unused":
                self._check_expiry(deleted)

    def _check_expiry(self, deleted: GroupDeleted) -> None:
        """Only an empty group goes by itself; here no time is long enough for its offsets to go."""
        self._note_acknowledged()
        assert deleted.why == "unused" and not self.acknowledged
        if deleted.group == GROUP and deleted.generation:  # else nothing was ever written of it
            self.expiries.append(len(self.synced))

    def _durable_generation(self) -> int:
        """The last generation that is known to be durable. Of an expiry this is known as well: with
        its tombstone in the log the generations before are gone, without it they all are back.
        """
        del self.expiries[self.scene.log.count((group_key(GROUP), None)) :]
        since = self.expiries[-1] if self.expiries else 0
        return max((g for call, g in self.synced[since:] if call.outcome == "NONE"), default=0)

    def _stored(self, partition: int) -> int:
        groups = self.scene.partition.groups
        if "g" not in groups:
            return -1
        return decode_offset_value(groups["g"].offsets["t"][partition]).offset

    def _generation(self) -> int:
        groups = self.scene.partition.groups
        return groups["g"].generation if "g" in groups else 0


def offsets(group: Group) -> dict[str, dict[int, bytes]]:
    return {topic: dict(rows) for topic, rows in group.offsets.items()}


def hard(group: Group) -> tuple[Any, ...]:
    """What a record holds of a Stable group."""
    members = {
        m.member_id: (m.instance_id, m.client_id, m.assignment, m.metadata(group.protocol_name))
        for m in group.members.values()
    }
    return group.generation, group.protocol_type, group.protocol_name, group.leader_id, members


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
