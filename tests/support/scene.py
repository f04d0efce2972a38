"""A vocabulary for the coordinator's tests: people join, sync, leave, and time goes by. The cast
is explained in `tests/coordinator/conftest.py`.

A `Scene` drives one pure partition as the server does, with a log in memory. People go by
names; the scene remembers the member id and the generation each was told, and sends them back as a
client would. Every request and reply takes the way through the codec in its version, so nothing
arrives that a client of that version cannot send. After every step the invariants are checked.
The cast (lea leads, fred follows, ...) and words such as *knock*: docs/glossary.md.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.facts import CoordinatorStalled, Fact, NotedFact
from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.group_configs import GroupConfigsRequest
from groupkeeper.coordinator.heartbeat import Beat
from groupkeeper.coordinator.liveness import keep_alive
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.member_bytes import Total
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.prolong import note_stall
from groupkeeper.coordinator.rebalance import prepare
from groupkeeper.coordinator.stalls import Stall
from groupkeeper.coordinator.step import GroupConfigs, KeyValue, Step
from groupkeeper.coordinator.timers import end_session
from groupkeeper.protocol.embedded import Subscription
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.registry import request_decoder, response_encoder
from tests.support import invariants, trace
from tests.support.codecs import encode_subscription, request_encoder, response_decoder
from tests.support.requests import fetch_request, offset_delete_request
from tests.support.slices import whole

GROUP = "g"
WALL = 1_700_000_000_000
SESSION, REBALANCE = 10_000, 60_000
CONFIG = GroupConfig(min_session_timeout_ms=1)


def topics(*names: str, owned: int = 0) -> bytes:
    """A consumer's subscription; `owned` makes another one of the same topics."""
    user_data = bytes([owned]) if owned else None
    return encode_subscription(Subscription(version=1, topics=list(names), user_data=user_data))


RANGE = {"range": topics("t")}
RANGE_RR = {"range": topics("t"), "roundrobin": topics("t")}


@dataclass(eq=False, slots=True)
class Call:
    """A request and, sooner or later, its reply. It is its own reply token."""

    who: str
    api: str
    key: int
    version: int
    response: Any = None

    def answer(self, response: Any) -> None:
        """A reply token, as the core sees it; the scene answers it in `Scene._deliver`."""
        raise AssertionError("the core never answers by itself")

    @property
    def parked(self) -> bool:
        return self.response is None

    @property
    def outcome(self) -> str:
        """`parked`, or the name of the first error code in the reply."""
        return "parked" if self.parked else ErrorCode(first_error(self.response)).name


def first_error(response: Any) -> int:
    """The error at the top, or that of the first entry that has one, whatever the API's shape."""
    code = getattr(response, "error_code", 0)
    for name in ("members", "topics", "partitions", "groups", "results"):
        for entry in getattr(response, name, ()):
            code = code or first_error(entry)
    return int(code)


@dataclass
class Person:
    """What somebody was told, and what it will say next time."""

    name: str
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    says: dict[str, Any] = field(default_factory=dict)


class Scene:
    """One partition, its log, its clock and the people that talk to it."""

    def __init__(self, *, hold: bool = False, **config: Any) -> None:
        self.config = replace(CONFIG, **config)
        self.now = 1_000
        self.hold = hold
        """Leave what is written on its way until `flush`."""
        self.long_ids = False
        """Make member ids as long as a server's."""
        self.log: list[KeyValue] = []
        self.facts: list[NotedFact] = []
        """What readers were told, of all lives of the partition."""
        self._noted: dict[int, tuple[Fact, int]] = {}
        """What the steps of this life noted, by identity, and how many records were written before
        it and with it."""
        self._loaded = 0
        """How many records of the log this life was loaded from."""
        self._next_fact = 0
        self.people: dict[str, Person] = {}
        self.peers: dict[str, Peer] = {}
        self.open: list[Call] = []
        self.trace: list[str] = []
        """All that happened, in words."""
        self.member_bytes = Total()
        """What members take here and in other partitions of the process."""
        self._ids: Counter[str] = Counter()
        self.partition_counts: dict[str, int] = {}
        """Number of partitions by topic, for the server's own assignments."""
        self.partition = self._load()

    # -- the partition ---------------------------------------------------------------------------

    @property
    def wall(self) -> int:
        return WALL + self.now

    @property
    def at(self) -> tuple[int, int]:
        return self.now, self.wall

    @property
    def group(self) -> Group:
        return self.partition.groups[GROUP]

    @property
    def state(self) -> str:
        return str(self.group.state) if GROUP in self.partition.groups else "Dead"

    @property
    def cause(self) -> Cause:
        """Of the rebalance under way, or of the last one."""
        assert self.group.rebalance is not None
        return self.group.rebalance.cause

    def _new_member_id(self, prefix: str) -> str:
        self._ids[prefix] += 1
        number = self._ids[prefix]
        return f"{prefix}-{UUID(int=number) if self.long_ids else number}"

    def _load(self, deleted: Sequence[str] = ()) -> Partition:
        bases = range(0, len(self.log), 100)
        batches = [encode_batch(b, 0, self.wall, self.log[b : b + 100]) for b in bases]
        return self.load(*batches, deleted=deleted)

    def load(self, *batches: bytes, deleted: Sequence[str] = ()) -> Partition:
        """A new partition from these bytes of a log; topics are `deleted` at the beginning."""
        make_id, counts = self._new_member_id, self.partition_counts
        self.partition = Partition(self.config, make_id, self.member_bytes, partition_counts=counts)
        if deleted:
            self.forget_topics(*deleted)
        for each in batches:
            self.partition.replay(each)
        whole(self.partition.restore())
        self._loaded = len(self.log)
        self._noted.clear()
        self._next_fact = 0
        while topics := self.partition.take_deleted():
            self._forget(topics)
        left = self.partition.group_ids()
        while left:
            self.partition.start_sessions(left, self.now, self.wall)
        self._settle(self.partition.activate(self.now, self.wall))
        return self.partition

    def ask(self, who: str, request: Any, version: int) -> Call:
        """Hand in any request, as a client of that version would send it."""
        key = layout_of(type(request)).key
        assert key is not None
        call = Call(who, type(request).__name__.removesuffix("Request"), key, version)
        self.hand_in(call, _sent(request, key, version))
        return call

    def hand_in(self, call: Call, request: Any) -> Step:
        """Let the partition decide a request as it is, without the codec."""
        self.open.append(call)
        caller = Caller(call.version, self.peer(call.who))
        step = self.partition.handle(request, caller, call, (self.now, self.wall))
        self._settle(step)
        return step

    def peer(self, who: str) -> Peer:
        """Who's connection; a new one if it hung up."""
        peer = self.peers.get(who)
        if peer is None or peer.link.closed:
            peer = self.peers[who] = Peer(client_id=who, host=f"/{who[:40]}")
        return peer

    def hang_up(self, name: str) -> None:
        """The connection of the name ends."""
        self.peer(name).link.closed = True

    def _settle(self, step: Step) -> None:
        self.trace += map(trace.fact, step.facts)
        for fact in step.facts:
            self._noted[id(fact)] = fact, self.partition.gate.appended
        self._hear(step.told)
        self._deliver(step.replies)
        if not self.hold:
            self.flush()
        invariants.check(self.partition, len(self.open))

    def _hear(self, told: Sequence[NotedFact]) -> None:
        """In their order, none left out, and only of what is durable."""
        for each in told:
            fact, written = self._noted.pop(id(each.fact))
            assert fact is each.fact
            assert len(self.log) - self._loaded >= written
            assert each.order == self._next_fact
            self._next_fact += 1
        self.facts += told

    def _deliver(self, replies: Sequence[tuple[Any, Any]]) -> None:
        for call, response in replies:
            self.open.remove(call)  # exactly once
            if isinstance(response, GroupConfigs):  # no client sees it
                call.response = response
                continue
            call.response = _received(response, call.key, call.version)
            self.trace.append(trace.reply(call.who, call.api, call.response))
            if call.api == "JoinGroup":
                self._remember(call)

    def _remember(self, call: Call) -> None:
        person, reply = self.person(call.who), call.response
        if call.outcome in ("NONE", "MEMBER_ID_REQUIRED"):
            person.member_id = reply.member_id
        if call.outcome == "NONE":
            person.generation, person.protocol = reply.generation_id, reply.protocol_name

    # -- time, disk and disaster -----------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Let time go by, ringing at every deadline on the way."""
        until = self.now + ms
        for _ in range(10_000):
            due = self.partition.next_deadline()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self.ring()
        else:
            raise AssertionError("timers spin")
        self.now = until

    def stop(self, ms: int) -> None:
        """The process stands still. Its driver reports that before anything else happens."""
        self.now += ms
        stall = Stall("process", self.now - ms, self.now)
        self._settle(self.partition.decide(partial(note_stall, stall), self.at))

    def move_clock(self, ms: int) -> None:
        """The wall clock is moved."""
        stall = Stall("clock", self.now, self.now)
        note = partial(note_stall, stall, jump_ms=ms)
        self._settle(self.partition.decide(note, self.at))

    def skip(self, ms: int, beats: Mapping[str, int]) -> None:
        """Time is moved; people go on with heartbeats every so many ms."""
        self.now += ms

        def decide(step: Step) -> None:
            for name, interval_ms in beats.items():
                keep_alive(self.group, self._member(name), interval_ms, step)

        self._settle(self.partition.decide(decide, (self.now, self.wall)))

    def end_session(self, name: str) -> None:
        """An operator ends the session of the name."""

        def decide(step: Step) -> None:
            end_session(self.group, self._member(name), step)

        self._settle(self.partition.decide(decide, (self.now, self.wall)))

    def force_rebalance(self, reason: str | None = None) -> None:
        """An operator wants a rebalance."""

        def decide(step: Step) -> None:
            prepare(self.group, Cause(CauseCode.OPERATOR, reason=reason), step)

        self._settle(self.partition.decide(decide, (self.now, self.wall)))

    def _member(self, name: str) -> Member:
        return self.group.members[self.person(name).member_id]

    def ring(self) -> Step:
        """Handle timers that are due, as many as are handled in one step."""
        step = self.partition.advance(self.now, self.wall)
        self._settle(step)
        return step

    def flush(self) -> None:
        """Everything written so far becomes durable."""
        while self.flush_one():
            pass

    def flush_one(self, meanwhile: Callable[[], object] | None = None) -> Unwritten | None:
        """A batch of what was written so far becomes durable; None when there is none."""
        unwritten = self.partition.take()
        if meanwhile is not None:
            meanwhile()
        if unwritten is not None:
            batch = encode_batch(0, 0, self.wall, unwritten.records)
            assert len(batch) <= unwritten.size <= self.config.message_max_bytes
            self.log += unwritten.records
            self.trace += map(trace.record, unwritten.records)
            replies, facts = self.partition.written(unwritten, self.at)
            for noted in facts:
                if isinstance(noted.fact, CoordinatorStalled):  # noted by `written` itself
                    self._noted.setdefault(id(noted.fact), (noted.fact, 0))
            self._hear(facts)
            self._deliver(replies)
        invariants.check(self.partition, len(self.open))
        return unwritten

    def crash(self, *deleted: str) -> None:
        """The process dies: what was not durable is gone, and nobody hears of it.

        `deleted` are topics that go while the partition is loading.
        """
        self.open.clear()
        self.member_bytes.used = 0
        self._load(deleted)

    def fail(self) -> None:
        """The log cannot be written: the partition closes, and is loaded again."""
        self._deliver(self.partition.close())
        assert self.open == []
        self._load()

    # -- joining and syncing -----------------------------------------------------------------------

    def person(self, name: str) -> Person:
        return self.people.setdefault(name, Person(name))

    def knock(self, name: str, *, version: int = 9, as_id: str | None = None, **says: Any) -> Call:
        """One JoinGroup. What is not said is as last time; `as_id` speaks under another id."""
        person = self.person(name)
        person.says |= says
        words = {"protocols": RANGE, "session": SESSION, "rebalance": REBALANCE, **person.says}
        protocols: Mapping[str, bytes] | list[tuple[str, bytes]] = words["protocols"]
        pairs = protocols.items() if isinstance(protocols, Mapping) else protocols
        request = JoinGroupRequest(
            group_id=words.get("group", GROUP),
            session_timeout_ms=words["session"],
            rebalance_timeout_ms=words["rebalance"] if version else -1,
            member_id=person.member_id if as_id is None else as_id,
            group_instance_id=words.get("instance") if version >= 5 else None,
            protocol_type=words.get("type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in pairs],
            reason=words.get("reason") if version >= 8 else None,
        )
        return self.ask(name, request, version)

    def join(self, name: str, *, version: int = 9, **says: Any) -> Call:
        """JoinGroup, and again with the id when told so (KIP-394)."""
        call = self.knock(name, version=version, **says)
        if call.outcome == "MEMBER_ID_REQUIRED":
            call = self.knock(name, version=version)
        return call

    def restart(self, name: str, *, version: int = 9, **says: Any) -> Call:
        """The process behind the name comes back and has forgotten everything."""
        self.hang_up(name)
        return self.join(name, version=version, as_id="", **says)

    def sync(
        self,
        name: str,
        plan: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        as_id: str | None = None,
        **other: Any,
    ) -> Call:
        """SyncGroup; `plan` by name or by member id."""
        person = self.person(name)
        known = {p.name: p.member_id for p in self.people.values()}
        assignments = [
            SyncGroupRequestAssignment(member_id=known.get(who, who), assignment=share)
            for who, share in (plan or {}).items()
        ]
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": person.generation,
            "member_id": person.member_id if as_id is None else as_id,
            "group_instance_id": person.says.get("instance") if version >= 3 else None,
            "protocol_type": person.says.get("type", "consumer") if version >= 5 else None,
            "protocol_name": person.protocol or "range" if version >= 5 else None,
            "assignments": assignments,
        }
        return self.ask(name, SyncGroupRequest(**fields | other), version)

    def sync_all(self, *names: str) -> None:
        """All send SyncGroup, the leader last, with a share named for everybody."""
        people = {self.person(name).member_id: name for name in names}
        leader = people[self.group.leader_id or ""]
        for name in names:
            if name != leader:
                self.sync(name)
        self.sync(leader, {name: f"for {name}".encode() for name in names})

    def form(self, *names: str, **says: Any) -> None:
        """A Stable group of these people at generation 1; names in capitals are static members."""
        for name in names:
            static = {"instance": name} if name.isupper() else {}
            self.join(name, **static | says)
        self.advance(self.config.initial_rebalance_delay_ms * 2)
        self.sync_all(*names)
        self.advance(0)  # very many are answered in several steps
        assert self.state == "Stable"

    # -- staying and leaving -----------------------------------------------------------------------

    def _heartbeat(self, name: str, version: int, other: Mapping[str, Any]) -> HeartbeatRequest:
        person = self.person(name)
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id": person.generation,
            "member_id": person.member_id,
            "group_instance_id": person.says.get("instance") if version >= 3 else None,
        }
        return HeartbeatRequest(**fields | dict(other))

    def heartbeat(self, name: str, *, version: int = 4, **other: Any) -> Call:
        return self.ask(name, self._heartbeat(name, version, other), version)

    def steady_beat(self, name: str) -> Beat | None:
        """What the partition offers for the next heartbeat of the same bytes."""
        return self.partition.steady_beat(self._heartbeat(name, 4, {}))

    def leave(self, *names: str, version: int = 5, reason: str | None = None) -> Call:
        """LeaveGroup of people, all in one request, sent by the first."""
        entries = [(self.person(n).member_id, self.person(n).says.get("instance")) for n in names]
        return self.leave_as(names[0], *entries, version=version, reason=reason)

    def leave_as(
        self,
        name: str,
        *entries: tuple[str, str | None],
        version: int = 5,
        reason: str | None = None,
        group: str = GROUP,
    ) -> Call:
        """LeaveGroup with (member id, instance id) entries as they are."""
        members = [
            MemberIdentity(member_id=m, group_instance_id=i, reason=reason) for m, i in entries
        ]
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=entries[0][0])
        else:
            request = LeaveGroupRequest(group_id=group, members=members)
        return self.ask(name, request, version)

    # -- offsets -----------------------------------------------------------------------------------

    def commit(
        self,
        name: str,
        offset: int = 7,
        *,
        topic: str = "t",
        partitions: Sequence[int] = (0,),
        metadata: str | None = "",
        version: int = 9,
        timestamp: int = -1,
        **other: Any,
    ) -> Call:
        """OffsetCommit. Who is nobody's member commits as an administrator does: generation -1."""
        person = self.person(name)
        rows = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_metadata=metadata,
                commit_timestamp=timestamp,
            )
            for index in partitions
        ]
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": person.generation,
            "member_id": person.member_id,
            "group_instance_id": person.says.get("instance") if version >= 7 else None,
            "topics": [OffsetCommitRequestTopic(name=topic, partitions=rows)],
        }
        return self.ask(name, OffsetCommitRequest(**fields | other), version)

    def try_fetch(
        self, topic: str | None = "t", *partitions: int, group: str = GROUP, version: int = 8
    ) -> Call:
        """OffsetFetch of one topic, or of all that is stored when it is None."""
        wanted = None if topic is None else {topic: list(partitions or (0,))}
        return self.ask("anyone", fetch_request(group, topics=wanted), version)

    def fetch(self, topic: str | None = "t", *partitions: int, group: str = GROUP) -> Any:
        """The group's part of the reply to `try_fetch`."""
        return self.try_fetch(topic, *partitions, group=group).response.groups[0]

    def offset(self, topic: str = "t", partition: int = 0) -> int:
        """The committed offset, -1 when there is none."""
        return int(self.fetch(topic, partition).topics[0].partitions[0].committed_offset)

    def delete_offsets(self, topic: str = "t", *partitions: int, group: str = GROUP) -> Call:
        places = [(topic, each) for each in partitions or (0,)]
        return self.ask("anyone", offset_delete_request(places, group), 0)

    # -- operators ---------------------------------------------------------------------------------

    def try_describe(self, group: str = GROUP, *, version: int = 5) -> Call:
        return self.ask("anyone", DescribeGroupsRequest(groups=[group]), version)

    def describe(self, group: str = GROUP, *, version: int = 5) -> DescribedGroup:
        described: DescribedGroup = self.try_describe(group, version=version).response.groups[0]
        return described

    def try_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5
    ) -> Call:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        return self.ask("anyone", request, version)

    def groups(self, **filters: Any) -> dict[str, str]:
        """Group id to state, of the groups that `try_groups` lists."""
        listed = self.try_groups(**filters).response.groups
        return {each.group_id: each.group_state for each in listed}

    def configure(self, configs: Mapping[str, str]) -> Call:
        """Set all configs of the group."""
        call = Call("admin", "GroupConfigs", 0, 0)
        self.hand_in(call, GroupConfigsRequest(GROUP, configs))
        return call

    def delete(self, *groups: str, version: int = 2) -> Call:
        request = DeleteGroupsRequest(groups_names=list(groups or (GROUP,)))
        return self.ask("anyone", request, version)

    def forget_topics(self, *names: str) -> None:
        """Topics are deleted elsewhere."""
        self.partition.forget_when_loaded(set(names))
        self._forget(set(names))

    def _forget(self, topics: set[str]) -> None:
        left = self.partition.group_ids()
        while left:
            self._settle(self.partition.forget_topics(topics, left, (self.now, self.wall)))

    # -- looking back -----------------------------------------------------------------------------

    def noted(self, kind: type[Fact]) -> list[Any]:
        """The facts of one kind that readers were told, in order."""
        return [each.fact for each in self.facts if type(each.fact) is kind]


def _sent(request: Any, key: int, version: int) -> Any:
    frame = request_encoder(key, version)(request, 0, "client")
    _, pos = read_request_header(frame, 4, len(frame))
    return request_decoder(key, version)(frame, pos, len(frame))


def _received(response: Any, key: int, version: int) -> Any:
    frame = response_encoder(key, version)(response, 0)
    return response_decoder(key, version)(frame, 4, len(frame))[1]


FOUR = ("lea", "fred", "SAM", "TIM")
"""The usual group: a leader, a follower, and two static members."""


def in_state(state: str, **config: Any) -> Scene:
    """The usual group in a state, nobody waiting; what they offer is `RANGE_RR`."""
    scene = Scene(**config)
    if state == "Dead":
        return scene
    scene.form(*FOUR, "zoe", protocols=RANGE_RR)
    if state == "Empty":
        scene.leave(*FOUR, "zoe")
    elif state != "Stable":
        scene.leave("zoe")
        if state == "CompletingRebalance":
            for name in FOUR:
                scene.join(name)
    else:
        scene.leave("zoe")
        for name in FOUR:
            scene.join(name)
        scene.sync_all(*FOUR)
    assert scene.state == state
    return scene
