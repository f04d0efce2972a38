"""What happened in a scene, in words: replies, facts and records as lines of text."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import Fact, OffsetsCommitted
from groupkeeper.coordinator.step import KeyValue
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import Mapped
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

UNSAID = {
    *("group", "generation", "state", "round"),
    *("request", "caller", "protocol_type", "assignments", "previous", "arrivals", "metadata"),
}
"""Fields that are not shown, because they are in other lines or too long."""
UNSAID_OF = {OffsetsCommitted: {"member", "instance", "partitions"}}
"""The same, of one kind of fact."""


def reply(who: str, api: str, response: Any) -> str:
    """`alice <- SyncGroup: 'her share'`"""
    return f"{who} <- {api}: {_summary(api, response)}"


def _summary(api: str, response: Any) -> str:
    error = getattr(response, "error_code", 0)
    if api == "JoinGroup":
        return _join(response)
    return _error(error) if error else SUMMARIES[api](response) or "nothing"


def _join(response: Any) -> str:
    words = [_error(response.error_code)]
    if not response.error_code:
        name, leader = response.protocol_name, response.leader
        words = [f"generation {response.generation_id}, {name}, leader {leader}"]
    if response.member_id:
        words.append(f"as {response.member_id}")
    if response.members:
        words.append("of " + " ".join(m.member_id for m in response.members))
    if response.skip_assignment:
        words.append("without planning")
    return ", ".join(words)


def _described(group: Any) -> str:
    members = ", ".join(f"{m.member_id} {_text(m.member_assignment)}" for m in group.members)
    return f"{group.group_state} {group.protocol_data or '-'}: {members or 'nobody'}"


def _error(code: int) -> str:
    return ErrorCode(code).name


def _text(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


def fact(noted: Fact) -> str:
    """`! member joined: alice-1, member_joined by alice-1`"""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in type(noted).__name__).strip()
    told = [_told(each.name, getattr(noted, each.name)) for each in fields(noted)]
    shown = zip(fields(noted), told, strict=True)
    unsaid = UNSAID | UNSAID_OF.get(type(noted), set())
    said = [text for each, text in shown if each.name not in unsaid and text]
    return f"! {words}: {', '.join(said)}" if said else f"! {words}"


def _told(name: str, value: Any) -> str:
    match value:
        case Cause():
            return _cause(value)
        case Who():
            return value.member or value.instance or value.client_id
        case None:
            return ""
        case dict():
            shown = ", ".join(f"{each} {_told('', what)}" for each, what in value.items())
            return f"{name} {{{shown}}}".strip() if shown else ""
        case list() | tuple() | Mapped():
            shown = ", ".join(_told("", each) for each in value)
            return f"{name} [{shown}]".strip() if shown else ""
        case bytes():
            return _text(value)
        case str():
            return value if name in ("", "leader", "protocol", "api") else f"{name} {value}"
    return f"{name} {value}".strip()


def _cause(cause: Cause) -> str:
    words = str(cause.code)
    if cause.who is not None:
        words += f" by {_told('', cause.who)}"
    if cause.reason:
        words += f" ({cause.reason})"
    if cause.likely:
        words += f", likely {cause.likely}"
    return words + (f", {_told('', cause.evidence)}" if cause.evidence else "")


def record(written: KeyValue) -> str:
    """`+ group g: generation 1, range, leader alice-1, alice-1 'her share'`"""
    key, value = decode_key(written[0]), written[1]
    match key:
        case OffsetCommitKey():
            stored = decode_offset_value(value).offset if value is not None else "deleted"
            return f"+ offset {key.group} {key.topic}-{key.partition}: {stored}"
        case GroupMetadataKey():
            text = _group(decode_group_value(value)) if value is not None else "deleted"
            return f"+ group {key.group}: {text}"
    return f"+ {key}"


def _group(value: GroupMetadataValue) -> str:
    words = [f"generation {value.generation}"]
    if value.members:
        words += [str(value.protocol), f"leader {value.leader}"]
    words += [f"{m.member_id} {_text(m.assignment)}" for m in value.members]
    return ", ".join(words)


def _left(response: Any) -> str:
    results = (
        f"{m.member_id or m.group_instance_id or 'nobody'} {_error(m.error_code)}"
        for m in response.members
    )
    return ", ".join(results) or _error(0)


def _by_partition(response: Any) -> str:
    return ", ".join(
        f"{topic.name}-{each.partition_index} {_error(each.error_code)}"
        for topic in response.topics
        for each in topic.partitions
    )


def _fetched(response: Any) -> str:
    return ", ".join(
        f"{topic.name}-{each.partition_index}={each.committed_offset}"
        for group in response.groups
        for topic in group.topics
        for each in topic.partitions
    )


SUMMARIES: dict[str, Callable[[Any], str]] = {
    "SyncGroup": lambda response: _text(response.assignment),
    "Heartbeat": lambda response: _error(0),
    "LeaveGroup": _left,
    "OffsetCommit": _by_partition,
    "OffsetDelete": _by_partition,
    "OffsetFetch": _fetched,
    "DescribeGroups": lambda response: "; ".join(map(_described, response.groups)),
    "ListGroups": lambda response: ", ".join(
        f"{group.group_id} {group.group_state}" for group in response.groups
    ),
    "DeleteGroups": lambda response: ", ".join(
        f"{result.group_id} {_error(result.error_code)}" for result in response.results
    ),
}
