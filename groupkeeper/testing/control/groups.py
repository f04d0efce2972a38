"""What the control tells and does about groups, topics and records."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from groupkeeper.observe.logs import Logger
from groupkeeper.testing.control.parts import WAITS, Parts, ServedBroker
from groupkeeper.testing.group import TIMEOUT_S
from groupkeeper.testing.seeding import Record
from groupkeeper.testing.views import GroupNow, MemberNow, Round
from groupkeeper.testing.waiting import Conditions
from groupkeeper.web.call import Call
from groupkeeper.web.parts import SOON, Object, Refused

ROUND: Final = (
    "cause",
    "more_causes",
    "likely",
    "reason",
    "who",
    "member_id",
    "outcome",
    "generation",
    "protocol",
    "members",
    "added",
    "removed",
    "moved",
    "duration_ms",
    "started_at_ms",
    "text",
    "advice",
)
"""Properties of a round that are told, under their own names."""

_log = Logger("control")

# -- groups ----------------------------------------------------------------------------------------


def groups(broker: ServedBroker, _: Call) -> Object:
    """`GET /groups`."""
    return {"groups": broker.groups()}


def group(broker: ServedBroker, call: Call) -> Object:
    """`GET /groups/G`."""
    return _group(broker.group(call.names["group"]).now)


def timeline(broker: ServedBroker, call: Call) -> Object:
    """`GET /groups/G/timeline`."""
    return {"group": call.names["group"], "text": broker.timeline(call.names["group"])}


async def wait(parts: Parts, call: Call) -> Object:
    """`POST /groups/G/wait`: on the loop of the control, so that it keeps no thread."""
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
        raise Refused(503, f"{WAITS} waits are under way: ask again when one has ended", SOON)
    async with parts.waits:
        return _group(await group.wait_until(timeout=timeout, **wanted))


def expire(broker: ServedBroker, call: Call) -> Object:
    """`POST /groups/G/expire`."""
    broker.group(call.names["group"]).expire(call.body["member"])
    return group(broker, call)


def fence(broker: ServedBroker, call: Call) -> Object:
    """`POST /groups/G/fence`."""
    broker.group(call.names["group"]).fence(call.body["instance"])
    return group(broker, call)


def rebalance(broker: ServedBroker, call: Call) -> Object:
    """`POST /groups/G/rebalance`."""
    broker.group(call.names["group"]).rebalance(call.body.get("reason"))
    return group(broker, call)


def committed(broker: ServedBroker, call: Call) -> Object:
    """`GET /groups/G/committed`."""
    group = call.names["group"]
    return {"group": group, "committed": _rows(broker.committed(group), "offset")}


def commit(broker: ServedBroker, call: Call) -> Object:
    """`POST /groups/G/committed`."""
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
    return {
        "group": now.group,
        "exists": now.exists,
        "state": now.state,
        "generation": now.generation,
        "protocol": now.protocol,
        "leader": now.leader,
        "members": [_member(each) for each in now.members],
        "committed": _rows(now.committed, "offset"),
        "lag": now.lag,
        "lags": _rows(now.lags, "lag"),
        "rounds": [_round(each) for each in now.rounds],
    }


def _member(member: MemberNow) -> Object:
    owned = [{"topic": name, "partitions": each} for name, each in member.partitions.items()]
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "assignment": owned,
    }


def _round(each: Round) -> Object:
    return {name: getattr(each, name) for name in ROUND}


# -- topics and records ----------------------------------------------------------------------------


def topics(broker: ServedBroker, _: Call) -> Object:
    """`GET /topics`."""
    counts = broker.topics.items()
    return {"topics": [{"topic": name, "partitions": count} for name, count in counts]}


def create_topic(broker: ServedBroker, call: Call) -> Object:
    """`POST /topics`."""
    body = call.body
    configs = {key: str(value) for key, value in body.get("configs", {}).items()}
    broker.create_topic(body["topic"], body.get("partitions", 1), configs=configs)
    return topics(broker, call)


def records(broker: ServedBroker, call: Call) -> Object:
    """`GET /topics/T/records`."""
    found = broker.records(call.names["topic"], call.query["partition"])
    return {"records": [_record(each) for each in found]}


def produce(broker: ServedBroker, call: Call) -> Object:
    """`POST /topics/T/records`: all in order, until one is refused."""
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
    """A text, or bytes as base64, or neither: null. Raises Refused."""
    text, coded = row.get(name), row.get(f"{name}_base64")
    if coded is None:
        return None if text is None else str(text).encode()
    if text is not None:
        raise Refused(400, f"'{name}' and '{name}_base64' exclude each other: give one")
    try:
        return base64.b64decode(coded, validate=True)
    except binascii.Error:
        raise Refused(400, f"'{name}_base64' is not base64") from None


def _record(record: Record) -> Object:
    headers = [{"key": name} | _told("value", value) for name, value in record.headers]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_told("key", record.key),
        **_told("value", record.value),
        "headers": headers,
    }


def _told(name: str, data: bytes | None) -> Object:
    """As text if it is one, else as base64."""
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text, f"{name}_base64": None}
