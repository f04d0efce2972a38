"""Control API routes for groups, topics and records."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from groupkeeper.observe.logs import Logger
from groupkeeper.testing.control.parts import OF_A_CHANGE, WAITS, ControlParts, Routes, ServedBroker
from groupkeeper.testing.control.schemas import ROUND
from groupkeeper.testing.group import TIMEOUT_S
from groupkeeper.testing.seeding import Record
from groupkeeper.testing.views import GroupNow, MemberNow, Round
from groupkeeper.testing.waiting import Conditions
from groupkeeper.web.parts import SOON, HttpRefused, Object, RoutedRequest
from groupkeeper.web.route import Parameter, Route

ROUTES: Final = Routes()
_PARTITION: Final = Parameter("partition", "Only records of this partition.", "number")

_log = Logger("control")

# -- groups ----------------------------------------------------------------------------------------


@ROUTES.add("GET", "groups", "Groups")
def groups(broker: ServedBroker, _: RoutedRequest) -> Object:
    """The ids of the existing groups."""
    return {"groups": broker.groups()}


@ROUTES.add("GET", "groups/{group}", "Group")
def group(broker: ServedBroker, call: RoutedRequest) -> Object:
    """The present state of a group, which need not exist."""
    return _group(broker.group(call.names["group"]).now)


@ROUTES.add("GET", "groups/{group}/timeline", "Timeline")
def timeline(broker: ServedBroker, call: RoutedRequest) -> Object:
    """The history of a group with causes, as text."""
    return {"group": call.names["group"], "text": broker.timeline(call.names["group"])}


async def wait(parts: ControlParts, call: RoutedRequest) -> Object:
    """Wait until the group meets all conditions; the error of status 408 lists unmet ones."""
    body = dict(call.body)
    timeout = body.pop("timeout_ms", TIMEOUT_S * 1000) / 1000
    if "assigned" in body:
        body["assigned"] = {row["topic"]: row["partitions"] for row in body["assigned"]}
    if "committed" in body:
        body["committed"] = _places(body["committed"])
    wanted: Conditions = body  # type: ignore[assignment]  # checked against the schema
    group = parts.broker.aio.group(call.names["group"])
    if parts.waits.locked():
        _log.warning("wait refused", group=group.id, limit="WAITS", most=WAITS)
        raise HttpRefused(503, f"{WAITS} waits are in progress: retry when one has ended", SOON)
    async with parts.waits:
        return _group(await group.wait_until(timeout=timeout, **wanted))


ROUTES.append(  # on the control's event loop, so that a wait does not occupy a thread
    Route(
        "groups/{group}/wait",
        wait,
        wait.__doc__ or "",
        "Group",
        {},
        "POST",
        (*OF_A_CHANGE, 408, 503),
        "Wait",
    )
)


@ROUTES.add("POST", "groups/{group}/expire", "Group", "Expiry")
def expire(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Expire the session of a member."""
    broker.group(call.names["group"]).expire(call.body["member"])
    return group(broker, call)


@ROUTES.add("POST", "groups/{group}/fence", "Group", "Fencing")
def fence(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Fence a static member: another process takes over its instance id."""
    broker.group(call.names["group"]).fence(call.body["instance"])
    return group(broker, call)


@ROUTES.add("POST", "groups/{group}/rebalance", "Group", "Forcing")
def rebalance(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Force a rebalance."""
    broker.group(call.names["group"]).rebalance(call.body.get("reason"))
    return group(broker, call)


@ROUTES.add("GET", "groups/{group}/committed", "Committed")
def committed(broker: ServedBroker, call: RoutedRequest) -> Object:
    """The committed offsets of a group."""
    group = call.names["group"]
    return {"group": group, "committed": _rows(broker.committed(group), "offset")}


@ROUTES.add("POST", "groups/{group}/committed", "Committed", "Commit")
def commit(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Commit offsets of a group without members."""
    broker.commit(call.names["group"], _places(call.body["committed"]))
    return committed(broker, call)


def _places(rows: list[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


def _rows(of: Mapping[tuple[str, int], int], name: str) -> list[Object]:
    return [
        {"topic": topic, "partition": partition, name: value}
        for (topic, partition), value in sorted(of.items())
    ]


def _group(now: GroupNow) -> Object:
    plain = ("group", "exists", "state", "generation", "protocol", "leader", "lag")
    return {name: getattr(now, name) for name in plain} | {
        "members": [_member(each) for each in now.members],
        "committed": _rows(now.committed, "offset"),
        "lags": _rows(now.lags, "lag"),
        "rounds": [_round(each) for each in now.rounds],
    }


def _member(member: MemberNow) -> Object:
    owned = [{"topic": name, "partitions": each} for name, each in member.partitions.items()]
    found = asdict(member) | {"assignment": owned}
    del found["partitions"]
    return found


def _round(each: Round) -> Object:
    return {name: getattr(each, name) for name in ROUND["properties"]}


# -- topics and records ----------------------------------------------------------------------------


@ROUTES.add("GET", "topics", "Topics")
def topics(broker: ServedBroker, _: RoutedRequest) -> Object:
    """All topics except internal ones."""
    counts = broker.topics.items()
    return {"topics": [{"topic": name, "partitions": count} for name, count in counts]}


@ROUTES.add("POST", "topics", "Topics", "NewTopic")
def create_topic(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Create a topic."""
    body = call.body
    configs = {key: str(value) for key, value in body.get("configs", {}).items()}
    broker.create_topic(body["topic"], body.get("partitions", 1), configs=configs)
    return topics(broker, call)


@ROUTES.add("GET", "topics/{topic}/records", "Records", "", _PARTITION)
def records(broker: ServedBroker, call: RoutedRequest) -> Object:
    """All records of a topic."""
    found = broker.records(call.names["topic"], call.query["partition"])
    return {"records": [_record(each) for each in found]}


@ROUTES.add("POST", "topics/{topic}/records", "Records", "NewRecords")
def produce(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Append records to a topic."""
    made = [_produce(broker, call.names["topic"], row) for row in call.body["records"]]
    return {"records": [_record(each) for each in made]}


def _produce(broker: ServedBroker, topic: str, row: Mapping[str, Any]) -> Record:
    return broker.produce(
        topic,
        _data(row, "value"),
        key=_data(row, "key"),
        partition=row.get("partition"),
        headers=[(each["key"], _data(each, "value")) for each in row.get("headers", ())],
        timestamp_ms=row.get("timestamp_ms"),
    )


def _data(row: Mapping[str, Any], name: str) -> bytes | None:
    """Return the bytes of a text or base64 field; None if both are missing. Raises HttpRefused."""
    text, coded = row.get(name), row.get(f"{name}_base64")
    if coded is None:
        return None if text is None else str(text).encode()
    if text is not None:
        raise HttpRefused(400, f"'{name}' and '{name}_base64' exclude each other: give one")
    try:
        return base64.b64decode(coded, validate=True)
    except binascii.Error:
        raise HttpRefused(400, f"'{name}_base64' is not base64") from None


def _record(record: Record) -> Object:
    headers = [{"key": name} | _told("value", value) for name, value in record.headers]
    told = _told("key", record.key) | _told("value", record.value)
    return record._asdict() | told | {"headers": headers}


def _told(name: str, data: bytes | None) -> Object:
    """Return the fields for bytes: text if they are UTF-8, else base64."""
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text, f"{name}_base64": None}
