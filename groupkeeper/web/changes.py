"""API calls that change something: removing members, resetting and deleting offsets, and deleting
groups.

They need a token with the role `write`, or without tokens the setting `http.api.write`, and are
protected from web pages of other origins (decision 008). The coordinator handles them like the
requests of an admin client. With `dry_run`, a call makes the checks, answers with what would
happen, and changes nothing.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from groupkeeper.apis.delete_groups import DeleteGroupsHandler
from groupkeeper.apis.gather import ask
from groupkeeper.apis.leave_group import LeaveGroupHandler
from groupkeeper.apis.offset_commit import OffsetCommitHandler
from groupkeeper.apis.offset_delete import OffsetDeleteHandler
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.records import offset_in
from groupkeeper.exchange import Handler
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupkeeper.web.body import check, read_body
from groupkeeper.web.group_view import find
from groupkeeper.web.parts import SOON, HttpRefused, Object, Parts, RoutedRequest
from groupkeeper.web.schemas import EARLIEST, schemas

CLIENT_ID: Final = "http"
"""Client id in events and logs, along with the address of the HTTP client."""
DENIED: Final = ("HTTP", "GROUP")
"""Labels `api` and `resource` of changes that a token does not allow."""
READ_ONLY: Final = (
    "this is an observer, which is read-only: change groups with the cluster's own tools, or with "
    "`groupkeeper groups --bootstrap-server`"
)
_LEAVE_VERSION: Final = 5
_COMMIT_VERSION: Final = 8
_DELETE_VERSION: Final = 0
_DELETE_GROUPS_VERSION: Final = 2
_BODIES: Final = schemas()
_access_log = Logger("access")


async def remove_members(parts: Parts, call: RoutedRequest) -> Object:
    """`POST /groups/G/members/remove`."""
    body = _checked(parts, call.request, "Removal")
    entries = [
        MemberIdentity(
            member_id=each.get("member_id", ""),
            group_instance_id=each.get("instance_id"),
            reason=body.get("reason"),
        )
        for each in body["members"]
    ]
    found = find(parts, call.names["group"])
    if _is_dry(body):
        errors = [_removal_error(found, each) for each in entries]
        return _removed(found, zip(entries, errors, strict=True), dry_run=True)
    request = LeaveGroupRequest(group_id=found.group_id, members=entries)
    handler = LeaveGroupHandler(parts.coordinator)
    answer = await _ask(parts, call.request, handler.handle, request, _LEAVE_VERSION)
    _check_error(answer.error_code)
    return _removed(found, ((each, each.error_code) for each in answer.members), dry_run=False)


def _removal_error(group: Group, entry: MemberIdentity) -> ErrorCode:
    """Return the error with which a removal would be refused, by the checks of LeaveGroup."""
    member_id, instance_id = entry.member_id, entry.group_instance_id
    holder = member_id if instance_id is None else group.instances.get(instance_id)
    if member_id in group.pending:
        return ErrorCode.NONE
    if holder not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_id in ("", holder) else ErrorCode.FENCED_INSTANCE_ID


def _removed(group: Group, results: Iterable[tuple[Any, int]], *, dry_run: bool) -> Object:
    """Return the answer about members. Any: entries of the request or of its response."""
    rows = [
        {
            "member_id": each.member_id or None,
            "instance_id": each.group_instance_id,
            "error": _name(error),
        }
        for each, error in results
    ]
    return {"group": group.group_id, "dry_run": dry_run, "members": rows}


async def reset_offsets(parts: Parts, call: RoutedRequest) -> Object:
    """`POST /groups/G/offsets/reset`."""
    body = _checked(parts, call.request, "Offsets")
    wanted = [(each["topic"], each["partition"], each["offset"]) for each in body["offsets"]]
    group = find(parts, call.names["group"])
    _check_empty(group, "offsets are reset")
    offsets, ends = await _resolved(parts, wanted)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "before": _committed(group, topic, partition),
            "end": ends.get((topic, partition)),
        }
        for (topic, partition), offset in offsets.items()
    ]
    whole = {"group": group.group_id, "dry_run": _is_dry(body), "offsets": rows}
    if _is_dry(body):
        return whole
    request = OffsetCommitRequest(
        group_id=group.group_id, topics=await parts.turns.run(_topics(offsets))
    )
    handler = OffsetCommitHandler(parts.coordinator, parts.topics.partition_count)
    answer = await _ask(parts, call.request, handler.handle, request, _COMMIT_VERSION)
    for each in (each for topic in answer.topics for each in topic.partitions):
        if each.error_code == ErrorCode.UNKNOWN_MEMBER_ID:  # a member has joined since
            raise HttpRefused(409, f"group '{group.group_id}' has members again: stop them first")
        _check_error(each.error_code)
    return whole


async def delete_offsets(parts: Parts, call: RoutedRequest) -> Object:
    """`POST /groups/G/offsets/delete`."""
    body = _checked(parts, call.request, "Places")
    places = dict.fromkeys((each["topic"], each["partition"]) for each in body["offsets"])
    group = find(parts, call.names["group"])
    if group.members and group.protocol_type != CONSUMER:
        _check_empty(group, f"offsets of the protocol type '{group.protocol_type}' are deleted")
    before = {place: _committed(group, *place) for place in places}
    errors: dict[tuple[str, int], int]
    if _is_dry(body):
        errors = {place: _deletion_error(parts, group, *place) for place in places}
    else:
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for name, partition in places:
            topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name))
            one = OffsetDeleteRequestPartition(partition_index=partition)
            topic.partitions = [*topic.partitions, one]
        request = OffsetDeleteRequest(group_id=group.group_id, topics=[*topics.values()])
        handler = OffsetDeleteHandler(parts.coordinator, parts.topics.partition_count)
        answer = await _ask(parts, call.request, handler.handle, request, _DELETE_VERSION)
        _check_error(answer.error_code)
        errors = {
            (topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "before": before[place],
            "error": _name(errors[place]),
        }
        for place in places
    ]
    return {"group": group.group_id, "dry_run": _is_dry(body), "offsets": rows}


def _deletion_error(parts: Parts, group: Group, topic: str, partition: int) -> ErrorCode:
    """Return the error with which the deletion of an offset would be refused."""
    if partition >= (parts.topics.partition_count(topic) or 0):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_read = group.state is not GroupState.EMPTY and group.subscribes(topic)
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE


async def delete_group(parts: Parts, call: RoutedRequest) -> Object:
    """`POST /groups/G/delete`."""
    body = _checked(parts, call.request, "Deletion")
    group = find(parts, call.names["group"])
    _check_empty(group, "it is deleted")
    offsets = sum(map(len, group.offsets.values()))
    whole = {"group": group.group_id, "dry_run": _is_dry(body), "offsets": offsets}
    if _is_dry(body):
        return whole
    request = DeleteGroupsRequest(groups_names=[group.group_id])
    handler = DeleteGroupsHandler(parts.coordinator)
    answer = await _ask(parts, call.request, handler.handle, request, _DELETE_GROUPS_VERSION)
    [result] = answer.results
    if result.error_code == ErrorCode.NON_EMPTY_GROUP:  # a member has joined since
        raise HttpRefused(409, f"group '{group.group_id}' has members again: stop them first")
    _check_error(result.error_code)
    return whole


# -- checks --------------------------------------------------------------------------------------


# Any: JSON.
def _is_dry(body: Mapping[str, Any]) -> bool:
    return bool(body.get("dry_run"))


def _check_empty(group: Group, what: str) -> None:
    """Raise HttpRefused for a group with members."""
    if group.state is not GroupState.EMPTY:
        raise HttpRefused(
            409,
            f"group '{group.group_id}' is {group.state} with {len(group.members)} members: stop its"
            f" consumers first, {what} only while it is Empty",
        )


def _committed(group: Group, topic: str, partition: int) -> int | None:
    """Return the committed offset of a partition; None without one."""
    value = group.offsets.get(topic, {}).get(partition)
    return None if value is None else offset_in(value)


# Any: JSON.
def _checked(parts: Parts, request: HttpRequest, schema: str) -> Mapping[str, Any]:
    """Return the body if changes are enabled and it fits the schema. Raises HttpRefused."""
    if not parts.may_write(request):
        raise HttpRefused(403, _denied(parts, request))
    body = read_body(request)
    check(body, _BODIES[schema], _BODIES)
    return body


def _denied(parts: Parts, request: HttpRequest) -> str:
    """Return why a request may change nothing; one with a token is counted and logged."""
    if parts.is_observer:
        return READ_ONLY
    if request.may_write is None:
        return "changes over HTTP are disabled: start the server with http.api.write=true"
    parts.metrics.denied[DENIED] += 1
    if times := parts.denials.due(request.remote):
        who = {"principal": request.principal, "client": f"/{request.remote}"}
        what = {"api": DENIED[0], "resource": DENIED[1], "path": request.path, "times": times}
        _access_log.warning("denied", **who, client_id=CLIENT_ID, **what)
    return f"{request.principal} has the role read: send a token with the role write"


# -- offsets -------------------------------------------------------------------------------------

_Offsets = dict[tuple[str, int], int]


async def _resolved(
    parts: Parts, wanted: list[tuple[str, int, int | str]]
) -> tuple[_Offsets, _Offsets]:
    """Replace `earliest` and `latest` by offsets, and return the ends of the logs, too, as far as
    they are known. Raises HttpRefused for an unknown partition.
    """
    for topic, partition, _ in wanted:
        count = parts.topics.partition_count(topic)
        if count is None or partition >= count:
            raise HttpRefused(400, f"there is no partition {partition} of topic '{topic}'")
    found = await parts.topics.positions.extents([each[:2] for each in wanted])
    offsets: _Offsets = {}
    for topic, partition, word in wanted:
        place = topic, partition
        if place in offsets:
            raise HttpRefused(400, f"partition {partition} of topic '{topic}' is named twice")
        if isinstance(word, int):
            offsets[place] = word
        elif place not in found:
            raise HttpRefused(503, f"the log of {topic}-{partition} is unavailable: retry", SOON)
        else:
            extent = found[place]
            offsets[place] = extent.start_offset if word == EARLIEST else extent.end_offset
    return offsets, {place: extent.end_offset for place, extent in found.items()}


def _topics(offsets: _Offsets) -> Generator[None, None, list[OffsetCommitRequestTopic]]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
        one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topic.partitions.append(one)
    yield
    return list(topics.values())


# -- requests to the coordinator -----------------------------------------------------------------


# Any: messages of one API.
async def _ask(parts: Parts, sent: HttpRequest, handle: Handler, request: Any, version: int) -> Any:
    peer = Peer(client_id=CLIENT_ID, host=f"/{sent.remote}", principal=sent.principal)
    caller = Caller(version, peer)
    return await ask(handle, request, caller, parts.turns)


def _check_error(code: int) -> None:
    """Raise HttpRefused for an error of the whole request."""
    if code:
        raise HttpRefused(503, f"the coordinator refused: {ErrorCode(code).name}; retry", SOON)


def _name(code: int) -> str | None:
    return ErrorCode(code).name if code else None
