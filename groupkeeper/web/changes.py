"""API calls that change something: removing members and resetting offsets.

They need the setting `http.api.write`, and are protected from web pages of other origins (decision
008). The coordinator handles them like a LeaveGroup or OffsetCommit of an admin client.
"""

from collections.abc import Generator, Mapping
from typing import Any, Final

from groupkeeper.apis.gather import ask
from groupkeeper.apis.leave_group import LeaveGroupHandler
from groupkeeper.apis.offset_commit import OffsetCommitHandler
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.group import GroupState
from groupkeeper.exchange import Handler
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupkeeper.web.body import check, read_body
from groupkeeper.web.group_view import find
from groupkeeper.web.parts import SOON, HttpRefused, Object, Parts, RoutedRequest
from groupkeeper.web.schemas import EARLIEST, schemas

CLIENT_ID: Final = "http"
"""Client id in events and logs, along with the address of the HTTP client."""
_LEAVE_VERSION: Final = 5
_COMMIT_VERSION: Final = 8
_BODIES: Final = schemas()


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
    group = find(parts, call.names["group"]).group_id
    request = LeaveGroupRequest(group_id=group, members=entries)
    handler = LeaveGroupHandler(parts.groups)
    answer = await _ask(parts, call.request, handler.handle, request, _LEAVE_VERSION)
    _check_error(answer.error_code)
    results = [
        {
            "member_id": each.member_id or None,
            "instance_id": each.group_instance_id,
            "error": _name(each.error_code),
        }
        for each in answer.members
    ]
    return {"group": group, "members": results}


async def reset_offsets(parts: Parts, call: RoutedRequest) -> Object:
    """`POST /groups/G/offsets/reset`."""
    body = _checked(parts, call.request, "Offsets")
    wanted = [(each["topic"], each["partition"], each["offset"]) for each in body["offsets"]]
    group = find(parts, call.names["group"])
    if group.state is not GroupState.EMPTY:
        line = (
            f"group '{group.group_id}' is {group.state} with {len(group.members)} members: stop its"
            " consumers first, offsets are reset only while it is Empty"
        )
        raise HttpRefused(409, line)
    offsets = await _resolved(parts, wanted)
    request = OffsetCommitRequest(
        group_id=group.group_id, topics=await parts.turns.run(_topics(offsets))
    )
    handler = OffsetCommitHandler(parts.groups, parts.topics.partition_count)
    answer = await _ask(parts, call.request, handler.handle, request, _COMMIT_VERSION)
    results = []
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code == ErrorCode.UNKNOWN_MEMBER_ID:  # a member has joined since
                raise HttpRefused(
                    409, f"group '{group.group_id}' has members again: stop them first"
                )
            _check_error(each.error_code)
            place = topic.name, each.partition_index
            result = {"topic": place[0], "partition": place[1], "offset": offsets[place]}
            results.append(result)
    return {"group": group.group_id, "offsets": results}


# -- checks --------------------------------------------------------------------------------------


# Any: JSON.
def _checked(parts: Parts, request: HttpRequest, schema: str) -> Mapping[str, Any]:
    """Return the body if changes are enabled and it fits the schema. Raises HttpRefused."""
    if not parts.options.settings.http_api_write:
        line = "changes over HTTP are disabled: start the server with http.api.write=true"
        raise HttpRefused(403, line)
    body = read_body(request)
    check(body, _BODIES[schema], _BODIES)
    return body


# -- offsets -------------------------------------------------------------------------------------

_Offsets = dict[tuple[str, int], int]


async def _resolved(parts: Parts, wanted: list[tuple[str, int, int | str]]) -> _Offsets:
    """Replace `earliest` and `latest` by offsets. Raises HttpRefused for an unknown partition."""
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
    return offsets


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
    caller = Caller(version, Peer(client_id=CLIENT_ID, host=f"/{sent.remote}"))
    return await ask(handle, request, caller, parts.turns)


def _check_error(code: int) -> None:
    """Raise HttpRefused for an error of the whole request."""
    if code:
        raise HttpRefused(503, f"the coordinator refused: {ErrorCode(code).name}; retry", SOON)


def _name(code: int) -> str | None:
    return ErrorCode(code).name if code else None
