"""The present state of a group: as a list row, in full, its lag, its members, one static member."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.groups.group_partitions import ServedPartition
from groupkeeper.groups.lag import PartitionLag
from groupkeeper.history.rounds import Round
from groupkeeper.observe.events import cause_of
from groupkeeper.protocol.embedded import read_assigned
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics.slices import ITEMS, Pace
from groupkeeper.turns import Slices
from groupkeeper.web.lag_history import point
from groupkeeper.web.parts import SOON, HttpRefused, Object, Parts, RoutedRequest
from groupkeeper.why.words import cause_text

MEMBERS_IN_A_SLICE: Final = 50
ASSIGNMENT_BYTES: Final = 100
"""Assignment size, about 25 partitions, that costs as much time as one item of a `Pace`."""
ABSENT: Final = "absent"
"""State of a partition that is owned by another process."""
CLOSED: Final = "closed"
"""State of a partition that failed. One that is damaged does not open within a second."""


def driver_of(parts: Parts, group: str) -> ServedPartition:
    """Return the driver of a group's partition. Raises HttpRefused unless it is active."""
    driver = parts.groups.of(group)
    if driver.absence is ErrorCode.NONE:
        return driver
    now = driver.snapshot()
    if now.state == ABSENT:
        line = f"the partition of group '{group}' is served by another process: use its port"
        raise HttpRefused(421, line)
    why = now.reason if now.state == CLOSED else "retry in a second"
    raise HttpRefused(503, f"the partition of group '{group}' is {now.state}: {why}", SOON)


def find(parts: Parts, group: str) -> Group:
    """Return a group. Raises HttpRefused if it does not exist, or its partition is not active."""
    found = driver_of(parts, group).peek(group)
    if found is None:
        raise HttpRefused(404, f"group '{group}' does not exist")
    return found


def type_of(group: Group) -> str:
    """Return the type of a group as ListGroups names it (KIP-848). Those of an observer that are
    not classic ones have the attribute.
    """
    return getattr(group, "group_type", "classic")


def row(parts: Parts, group: Group) -> Object:
    """Return the group's row of a list, with `lag` still to be filled in."""
    return {
        "group": group.group_id,
        "type": type_of(group),
        "state": str(group.state),
        "protocol_type": group.protocol_type,
        "members": len(group.members),
        "generation": group.generation,
        "round": group.round,
        "in_state_since_ms": group.state_timestamp_ms,
        "last_cause": _last_cause(parts, group),
        "lag": None,
    }


def _last_cause(parts: Parts, group: Group) -> Object | None:
    """Return the cause of the last round; None before the first round since the load."""
    if parts.inferred_cause is not None:
        return parts.inferred_cause(group.group_id)
    if group.rebalance is None:
        return None
    cause = parts.personal.shown(cause_of(group.rebalance.cause))
    began = parts.clock.wall() - (parts.clock.now() - group.rebalance.started_ms)
    text = cause_text(cause, Round(group.group_id, 0, group.round, group.generation))
    return {"code": cause["code"], "text": text, "at_ms": began}


async def group(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G`."""
    found = find(parts, call.names["group"])
    whole = row(parts, found)
    await add_lags(parts, [whole])
    return {
        **whole,
        "protocol": found.protocol_name,
        "leader": found.leader_id,
        "configs": dict(driver_of(parts, found.group_id).configs.get(found.group_id, {})),
        "live": await live_of(parts, found.group_id),
        "writes_enabled": parts.may_write(call.request),
    }


async def live_of(parts: Parts, group: str) -> Object | None:
    """Return the group's activity (see `coordinator.live`); None if the group does not exist."""
    looked = driver_of(parts, group).look(group)
    if looked is None:
        return None
    return await parts.turns.run(_shown(parts, looked))


def _shown(parts: Parts, looked: Slices[Object]) -> Slices[Object]:
    view = yield from looked
    members: list[Object] = []
    hidden: Iterable[Object]
    for first in range(0, len(view["members"]), MEMBERS_IN_A_SLICE):
        hidden = parts.personal.shown(view["members"][first : first + MEMBERS_IN_A_SLICE])
        members += hidden
        yield
    view["members"] = []
    whole: Object = parts.personal.shown(view)
    return whole | {"members": members}


# -- lag -------------------------------------------------------------------------------------------


async def add_lags(parts: Parts, rows: Sequence[Object]) -> None:
    """Fill in `lag` of group rows; it stays null for groups without committed offsets."""
    wall = parts.clock.wall()
    found = await parts.lags.of([each["group"] for each in rows], wall)
    await parts.turns.run(_add_lags(rows, found, wall))


def _add_lags(
    rows: Sequence[Object], found: Mapping[str, list[PartitionLag]], wall: int
) -> Slices[None]:
    pace = Pace()
    for each in rows:
        lags = found.get(each["group"])
        if lags:
            now = yield from point(lags, wall, pace)
            seconds = None if now.lag_ms is None else now.lag_ms / 1000
            each["lag"] = {"records": now.records, "seconds": seconds}


async def group_lag(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/lag`."""
    group = find(parts, call.names["group"]).group_id
    wall = parts.clock.wall()
    lags = (await parts.lags.of([group], wall)).get(group, [])
    now = await parts.turns.run(point(lags, wall, Pace()))
    history = parts.history.of(group, now)
    return {
        "group": group,
        "at_ms": now.at_ms,
        "records": now.records,
        "lag_ms": now.lag_ms,
        "partitions": await parts.turns.run(_by_partition(lags)),
        "history": [each._asdict() for each in history],
    }


def _by_partition(lags: Iterable[PartitionLag]) -> Slices[list[Object]]:
    """Return rows ordered by topic and partition."""
    topics, rows, pace = dict[str, list[PartitionLag]](), list[Object](), Pace()
    for each in lags:
        topics.setdefault(each.topic, []).append(each)
        if pace.spent():
            yield
    for topic in sorted(topics):
        for each in sorted(topics[topic], key=attrgetter("partition")):
            row = {
                "topic": topic,
                "partition": each.partition,
                "committed": each.committed,
                "end": each.end_offset,
                "lag": each.lag,
                "lag_ms": each.lag_ms,
                "subscribed": each.is_subscribed,
            }
            rows.append(row)
            if pace.spent():
                yield
    return rows


# -- members -------------------------------------------------------------------------------------


async def members(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/members`."""
    found = find(parts, call.names["group"])
    driver = driver_of(parts, found.group_id)
    looked = driver.look(found.group_id)
    assert looked is not None
    view = await parts.turns.run(looked)
    rows = await parts.turns.run(_members(parts, found, view["members"]))
    return {"group": found.group_id, "generation": found.generation, "members": rows}


def _members(parts: Parts, group: Group, looked: list[Object]) -> Slices[list[Object]]:
    wall, found, pace = parts.clock.wall(), [], Pace()
    for seen in looked:
        member = group.members.get(seen["member"])
        if member is None:  # it has left in the meantime
            continue
        found.append(parts.personal.shown(_member(member, seen, wall)))
        if pace.spent(ITEMS // MEMBERS_IN_A_SLICE + len(member.assignment) // ASSIGNMENT_BYTES):
            yield
    return found


def _member(member: Member, seen: Object, wall: int) -> Object:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": seen["client_id"],
        "host": seen["host"],
        "software": seen["software"],
        "epoch": seen.get("epoch"),
        "session_timeout_ms": seen["session_timeout_ms"],
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "last_heard_ms": wall - seen["heard_ms_ago"] if seen["heard"] else None,
        "connection": seen["connection"],
        "reserved_ms": seen["reserved_ms"],
        "standby": seen["standby"],
        "assignment": assigned(member),
    }


def assigned(member: Member) -> list[Object] | None:
    """Return a member's partitions; None if its protocol type is not `consumer`."""
    found = read_assigned(member.assignment) if member.assignment else {}
    if found is None:
        return None
    return [{"topic": topic, "partitions": numbers} for topic, numbers in sorted(found.items())]


async def instance(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/instances/I`: probe whether a static member is in its Stable group."""
    found, name = find(parts, call.names["group"]), call.names["instance"]
    member_id = found.instances.get(name)
    if member_id is None:
        line = f"no member of group '{found.group_id}' has the instance id '{name}'"
        raise HttpRefused(503, line, stable=False)
    if found.state is not GroupState.STABLE:
        line = f"group '{found.group_id}' is {found.state}, not Stable"
        raise HttpRefused(503, line, stable=False)
    return {
        "group": found.group_id,
        "instance": name,
        "member_id": member_id,
        "stable": True,
        "since_ms": found.state_timestamp_ms,
        "generation": found.generation,
        "owns": assigned(found.members[member_id]),
    }
