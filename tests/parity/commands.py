"""The commands of transcripts: from a line of text to a request of somebody.

    > join lea protocols=range:orders+payments session=10s
    > sync lea plan=lea:first,fred:second
    > leave op entries=:SAM,x:TIM v=3

The first word is the verb, the second who speaks; the rest are options `name=value`. Somebody in
small letters is a dynamic member, in capitals a static one with that instance id. Each has a
connection; `lea/2` is a second one of the same person. `lea@5`, once said, gives somebody the
age of a client that sends JoinGroup version 5. What is not said is what a real client would send
next: its own member id, instance id and generation, and the newest version (`v=`) it knows.
Who plays which part is in docs/glossary.md.

    join       member= instance= session= rebalance= type= protocols= reason=
    restart    a join of somebody who has forgotten the member id
    sync       plan= member= instance= generation= type= name=
    heartbeat  member= instance= generation=
    leave      entries=member:instance,... reason=        (itself, without entries)
    commit     orders-0=5 ... member= instance= generation= epoch= metadata= retention= at=
               times= (each partition so often)
    fetch      topics=orders-0,orders-1|all|none  groups=g,h  stable=yes  member= epoch=
    describe   groups=g,h  operations=yes
    list       states= types=
    delete     groups=g,h
    forget     orders-0,... (OffsetDelete)
    find       keys=g,h  type=0
    send       API {json}    any request; "@name" is a group or topic of this transcript, or
                             the topic's id, "zero" the id of none, "3 records" a batch of so
                             many (batches.py has the words for others)
    raw        key= version= body=hex
    repeat     NUMBER COMMAND: so many of it at once, on one connection

A group is `g` unless `group=` says otherwise, the client id is the name unless `client=` says
otherwise. `null` is null, `''` the empty text, `x*4096` as metadata or as the reason to leave a
text of that length. In `protocols=` a subscription is written as topics joined by `+`, `*2` behind
it owns that many partitions of the first, `^9` at the end adds as many bytes of user data, `0x..`
are bytes as they are, and nothing is no bytes. `plan=none` is an empty list of assignments; a
leader who is not told otherwise gives everybody `for <name>`.
"""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from groupkeeper.protocol.registry import APIS
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf
from tests.parity.batches import produced
from tests.parity.names import RunNames
from tests.parity.people import AGES, KEYS, Person, Request, Words, milliseconds
from tests.support.codecs import encode_subscription
from tests.support.requests import fetch_request, flat_fetch_request, offset_delete_request

_LONG = re.compile(r"(.)\*(\d+)")


class Speech:
    """Makes requests out of commands; the people and the names are those of one run."""

    def __init__(self, names: RunNames, wall: Callable[[], int]) -> None:
        self._names = names
        self._wall = wall
        self.people: dict[str, Person] = {}

    def person(self, who: str) -> Person:
        name, _, age = who.partition("/")[0].partition("@")
        person = self.people.setdefault(name, Person(name))
        if age:
            person.age = int(age)
        return person

    def _newest(self, person: Person, key: int) -> int:
        if person.age is None or key not in AGES:
            return APIS[key].served[1]
        return AGES[key][person.age]

    def request(self, command: str) -> Request:
        """Raises ValueError for a command that is none."""
        verb, *rest = shlex.split(command)
        if verb not in VERBS or not rest:
            raise ValueError(f"not a command: {command}")
        who, words = rest[0], Words(rest[1:])
        person, who = self.person(who), who.partition("@")[0]
        key, make = VERBS[verb]
        if verb == "raw":
            return self._raw(who, person, words)
        if verb == "send":
            key = KEYS[words.plain[0]]
        version = words.number("v", self._newest(person, key))
        client_id = words.take("client", person.name)
        message = make(self, person, words, version)
        if words.options:
            raise ValueError(f"unknown options {sorted(words.options)}: {command}")
        return Request(who, person, key, version, message, client_id=client_id)

    def _raw(self, who: str, person: Person, words: Words) -> Request:
        key, version = words.number("key", 0), words.number("version", 0)
        return Request(who, person, key, version, raw=bytes.fromhex(words.take("body", "")))

    # -- one for each verb ---------------------------------------------------------------------

    def join(self, person: Person, words: Words, version: int) -> Any:
        person.protocols = words.take("protocols", person.protocols)
        person.session = words.take("session", person.session)
        person.rebalance = words.take("rebalance", person.rebalance)
        return JoinGroupRequest(
            group_id=self._group(words),
            member_id=self._member(person, words),
            group_instance_id=_in(version, 5, words.take("instance", person.instance_id)),
            session_timeout_ms=milliseconds(person.session),
            rebalance_timeout_ms=milliseconds(person.rebalance) if version else -1,
            protocol_type=words.take("type", "consumer"),
            protocols=self._protocols(person.protocols),
            reason=_in(version, 8, words.take("reason")),
        )

    def restart(self, person: Person, words: Words, version: int) -> Any:
        person.member_id = ""
        return self.join(person, words, version)

    def sync(self, person: Person, words: Words, version: int) -> Any:
        return SyncGroupRequest(
            group_id=self._group(words),
            generation_id=words.number("generation", person.generation),
            member_id=self._member(person, words),
            group_instance_id=_in(version, 3, words.take("instance", person.instance_id)),
            protocol_type=_in(version, 5, words.take("type", "consumer")),
            protocol_name=_in(version, 5, words.take("name", "range")),
            assignments=self._plan(person, words.take("plan", "default")),
        )

    def heartbeat(self, person: Person, words: Words, version: int) -> Any:
        return HeartbeatRequest(
            group_id=self._group(words),
            generation_id=words.number("generation", person.generation),
            member_id=self._member(person, words),
            group_instance_id=_in(version, 3, words.take("instance", person.instance_id)),
        )

    def leave(self, person: Person, words: Words, version: int) -> Any:
        group_id, reason = self._group(words), _lengthened(words.take("reason"))
        if version < 3:
            member_id = self._member(person, words)
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        own = MemberIdentity(member_id=person.member_id, group_instance_id=person.instance_id)
        entries = words.take("entries")
        members = [own] if entries is None else [self._entry(e) for e in _listed(entries)]
        for each in members:
            each.reason = _in(version, 5, reason)
        return LeaveGroupRequest(group_id=group_id, members=members)

    def commit(self, person: Person, words: Words, version: int) -> Any:
        group_id, member_id = self._group(words), self._member(person, words)
        generation = words.number("generation", person.generation)
        instance_id = words.take("instance", person.instance_id)
        retention = words.take("retention", "-1ms")
        more = {
            "committed_leader_epoch": _in(version, 6, words.number("epoch", -1), -1),
            "commit_timestamp": self._moment(words.take("at")) if version == 1 else -1,
            "committed_metadata": _lengthened(words.take("metadata", "")),
        }
        times = words.number("times", 1)
        topics = self._positions(words, more)
        for topic in topics:
            topic.partitions *= times
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=_in(version, 1, generation, -1),
            member_id=_in(version, 1, member_id, ""),
            group_instance_id=_in(version, 7, instance_id),
            retention_time_ms=milliseconds(retention) if 2 <= version <= 4 else -1,
            topics=topics,
        )

    def fetch(self, person: Person, words: Words, version: int) -> Any:
        groups = [self._names.real_group(g) for g in _listed(words.take("groups", "g"))]
        if version < 8:
            request = flat_fetch_request(groups[0], self._places(words.take("topics", "all")))
        else:
            request = fetch_request(*groups, topics=self._places(words.take("topics", "all")))
            for each in request.groups:
                each.member_id = _in(version, 9, words.options.get("member"))
                each.member_epoch = _in(version, 9, int(words.options.get("epoch", -1)), -1)
        request.require_stable = version >= 7 and words.take("stable", "no") == "yes"
        words.take("member"), words.take("epoch")
        return request

    def describe(self, person: Person, words: Words, version: int) -> Any:
        return DescribeGroupsRequest(
            groups=[self._names.real_group(g) for g in _listed(words.take("groups", "g"))],
            include_authorized_operations=words.take("operations", "no") == "yes",
        )

    def list_groups(self, person: Person, words: Words, version: int) -> Any:
        return ListGroupsRequest(
            states_filter=_listed(words.take("states", "")),
            types_filter=_listed(words.take("types", "")),
        )

    def delete(self, person: Person, words: Words, version: int) -> Any:
        groups = _listed(words.take("groups", "g"))
        return DeleteGroupsRequest(groups_names=[self._names.real_group(g) for g in groups])

    def forget(self, person: Person, words: Words, version: int) -> Any:
        places = self._places(",".join(words.plain)) or {}
        flat = [(topic, index) for topic, indexes in places.items() for index in indexes]
        return offset_delete_request(flat, self._group(words))

    def find(self, person: Person, words: Words, version: int) -> Any:
        keys = [self._names.real_group(g) for g in _listed(words.take("keys", "g"))]
        kind = words.number("type", 0)
        if version < 4:
            return FindCoordinatorRequest(key=keys[0], key_type=kind)
        return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)

    def send(self, person: Person, words: Words, version: int) -> Any:
        api = APIS[KEYS[words.plain[0]]]
        text = words.plain[1] if len(words.plain) > 1 else "{}"
        return self._built(api.request_type, json.loads(text))

    # -- pieces --------------------------------------------------------------------------------

    def _group(self, words: Words) -> str:
        return self._names.real_group(words.take("group", "g"))

    def _member(self, person: Person, words: Words) -> str:
        named = words.take("member", None)
        return person.member_id if named is None else self._names.real_member(named)

    def _entry(self, text: str) -> MemberIdentity:
        """`member:instance`, `:instance` or `member`."""
        member, colon, instance = text.partition(":")
        instance_id = {"''": ""}.get(instance, instance) if colon else None
        return MemberIdentity(
            member_id=self._names.real_member(member), group_instance_id=instance_id
        )

    def _protocols(self, text: str) -> list[JoinGroupRequestProtocol]:
        return [
            JoinGroupRequestProtocol(name=name, metadata=self._metadata(topics))
            for name, _, topics in (each.partition(":") for each in _listed(text))
        ]

    def _metadata(self, text: str) -> bytes:
        if text.startswith("0x") or not text:
            data = bytes.fromhex(text[2:])
        else:
            said, _, padding = text.partition("^")
            names, _, owned = said.partition("*")
            topics = [self._names.real_topic(each) for each in names.split("+")]
            subscription = Subscription(version=1, topics=topics)
            if padding:
                subscription.user_data = bytes(int(padding))
            if owned:
                mine = TopicPartition(topic=topics[0], partitions=list(range(int(owned))))
                subscription.owned_partitions = [mine]
            data = encode_subscription(subscription)
        if data:
            self._names.note_bytes(data, text)
        return data

    def _plan(self, person: Person, text: str) -> list[SyncGroupRequestAssignment]:
        if text == "none":
            return []
        if text == "default":
            told = {who: f"for {self._names.text(who)}" for who in person.followers}
        else:
            shares = (each.partition(":") for each in _listed(text))
            told = {self._names.real_member(who): share for who, _, share in shares}
        return [
            SyncGroupRequestAssignment(member_id=who, assignment=share.encode())
            for who, share in told.items()
        ]

    def _places(self, text: str) -> dict[str, list[int]] | None:
        """`orders-0,orders-1`; `all` is null, `none` an empty list."""
        if text == "all":
            return None
        places: dict[str, list[int]] = {}
        for each in _listed("" if text == "none" else text):
            topic, _, index = each.rpartition("-")
            places.setdefault(self._names.real_topic(topic), []).append(int(index))
        return places

    def _positions(self, words: Words, more: dict[str, Any]) -> list[OffsetCommitRequestTopic]:
        """All options that are left are partitions and their offsets."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for place in list(words.options):
            topic, _, index = place.rpartition("-")
            name = self._names.real_topic(topic)
            partition = OffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(words.options.pop(place)), **more
            )
            topics.setdefault(name, OffsetCommitRequestTopic(name=name)).partitions.append(
                partition
            )
        return list(topics.values())

    def _moment(self, text: str | None) -> int:
        """`now` or `now-10s`."""
        if text is None:
            return -1
        ago = text.removeprefix("now").removeprefix("-")
        return self._wall() - (milliseconds(ago) if ago else 0)

    def _built(self, cls: type, told: dict[str, Any]) -> Any:
        """A message out of JSON; fields are named as in the class."""
        types = {each.name: each.type for each in layout_of(cls).fields}
        return cls(**{name: self._value(types[name], value) for name, value in told.items()})

    def _value(self, kind: Any, value: Any) -> Any:
        if isinstance(kind, StructOf):
            return None if value is None else self._built(kind.cls, value)
        if isinstance(kind, ArrayOf) and value is not None:
            return [self._value(kind.item, each) for each in value]
        if isinstance(kind, Fixed) and kind.name == "uuid":
            return bytes(16) if value == "zero" else self._names.topic_id(value.removeprefix("@"))
        if isinstance(kind, Sized) and not kind.is_text and value is not None:
            return produced(value, self._wall())
        if isinstance(value, str) and value.startswith("@"):
            return self._names.prefix + value[1:]
        return _lengthened(value) if isinstance(value, str) else value


VERBS: dict[str, tuple[int, Callable[..., Any]]] = {
    "join": (ApiKey.JOIN_GROUP, Speech.join),
    "restart": (ApiKey.JOIN_GROUP, Speech.restart),
    "sync": (ApiKey.SYNC_GROUP, Speech.sync),
    "heartbeat": (ApiKey.HEARTBEAT, Speech.heartbeat),
    "leave": (ApiKey.LEAVE_GROUP, Speech.leave),
    "commit": (ApiKey.OFFSET_COMMIT, Speech.commit),
    "fetch": (ApiKey.OFFSET_FETCH, Speech.fetch),
    "describe": (ApiKey.DESCRIBE_GROUPS, Speech.describe),
    "list": (ApiKey.LIST_GROUPS, Speech.list_groups),
    "delete": (ApiKey.DELETE_GROUPS, Speech.delete),
    "forget": (ApiKey.OFFSET_DELETE, Speech.forget),
    "find": (ApiKey.FIND_COORDINATOR, Speech.find),
    "send": (-1, Speech.send),
    "raw": (-1, Speech.send),
}


def _in(version: int, since: int, value: Any, otherwise: Any = None) -> Any:
    """The value, if the version carries it."""
    return value if version >= since else otherwise


def _lengthened(text: str | None) -> str | None:
    """`x*9` is a long way to write x, all other texts are what they are."""
    written = _LONG.fullmatch(text or "")
    return written[1] * int(written[2]) if written else text


def _listed(text: str | None) -> list[str]:
    return text.split(",") if text else []
