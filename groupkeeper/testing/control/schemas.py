"""JSON Schemas of the control API, for its OpenAPI document and for checking request bodies."""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, Final, get_type_hints

from groupkeeper.protocol.registry import APIS
from groupkeeper.testing import effects
from groupkeeper.testing.faults.rules import Effect, When
from groupkeeper.testing.time.control import MOST_S
from groupkeeper.testing.views import MemberNow, Round
from groupkeeper.web.json_schema import (
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    array,
    or_null,
    record,
    ref,
    told,
)
from groupkeeper.web.openapi import Documented
from groupkeeper.web.schemas import of_type

PREFIX: Final = "/control/v1/"
WAIT_MOST_MS: Final = 300_000
RECORDS_MOST: Final = 10_000
"""Maximum number of records in a request; the body size is limited separately."""

_COUNT: Final = NUMBER | {"minimum": 0}
_AT: Final = "Unix milliseconds, by the broker's clock."
_TIMEOUT: Final = told(
    _COUNT | {"maximum": WAIT_MOST_MS},
    "Real milliseconds; default 5000 for `advance`, 20000 for `wait`.",
)
_PLACE: Final = {"topic": TEXT, "partition": _COUNT}
_OFFSET: Final = record(**_PLACE, offset=_COUNT)
_OWNED: Final = record(topic=TEXT, partitions=array(_COUNT))
_DATA: Final = "Text if it is UTF-8, else base64 in `..._base64`. Both are null for a null."

ROUND: Final = record(
    **{
        name: of_type(get_type_hints(each.fget)["return"])
        for name, each in vars(Round).items()
        if isinstance(each, property)
    }
)
"""Schema of a round, with all properties of `Round`."""


def answer(**properties: Schema) -> Schema:
    """Return the schema of a response."""
    return record(cluster=told(TEXT, "Cluster id."), **properties)


def optional(**properties: Schema) -> Schema:
    """Return the schema of a body with only optional fields."""
    return {"type": "object", "properties": properties, "required": []}


def _with(required: Schema, **more: Schema) -> Schema:
    return required | {"properties": required["properties"] | more}


def schemas() -> dict[str, Schema]:
    """Return all schemas by name."""
    return (
        {"Error": answer(error=told(TEXT, "Problem and remedy.")), "Nothing": optional()}
        | _of_the_broker()
        | _of_nodes()
        | _of_faults()
        | _of_groups()
        | _of_topics()
    )


def _of_the_broker() -> dict[str, Schema]:
    seconds: Schema = {"type": "number", "minimum": 0, "maximum": MOST_S}
    silent = told(array(TEXT), "Members that do not stay alive: member, instance or client ids.")
    return {
        "Broker": answer(
            is_up=FLAG,
            bootstrap_servers=told(TEXT, "HOST:PORT of each running node."),
            time_ms=told(NUMBER, _AT),
            is_frozen=FLAG,
        ),
        "Advance": _with(
            record(seconds=told(seconds, "Seconds by which the clock moves forward.")),
            silent=silent,
            all=told(FLAG, "No member stays alive."),
            timeout_ms=_TIMEOUT,
        ),
        "Transcript": answer(text=told(TEXT, "Lines for each request and response.")),
        "Logs": answer(lines=told(array(TEXT), "The last lines of the log.")),
    }


def _of_nodes() -> dict[str, Schema]:
    node = told(_COUNT, "Node id.")
    return {
        "Nodes": answer(nodes=array(record(id=node, address=TEXT, is_up=FLAG))),
        "Move": record(to=node),
        "Coordinator": answer(group=TEXT, coordinator=node),
        "Leader": answer(**_PLACE, leader=node),
    }


def _of_faults() -> dict[str, Schema]:
    rule = {
        "id": _COUNT,
        "rule": told(TEXT, "The rule as a Python call."),
        "hits": told(_COUNT, "Number of faults applied."),
        "may_miss": FLAG,
    }
    made = sorted(
        name for name, each in vars(effects).items() if callable(each) and each is not Effect
    )
    effect = _with(record(name=told(TEXT | {"enum": made}, "Effect.")), **_arguments(made))
    conditions: dict[str, Schema] = dict.fromkeys(("group", "topic", "client_id"), TEXT) | {
        "api": told(
            {"type": ["string", "array"], "items": TEXT},
            f"Names of APIs: {', '.join(api.name for api in APIS.values())}.",
        ),
        "versions": told(array(_COUNT), "First and last request version."),
        "partition": _COUNT,
        "member": told(TEXT, "Member or instance id."),
        "nth": told(NUMBER | {"minimum": 1}, "First affected matching request, counted from 1."),
        "times": told(NUMBER | {"minimum": 1}, "Maximum number of affected requests."),
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
        "seed": told(NUMBER, "Seed for `probability`."),
        "may_miss": told(FLAG, "The rule may end without having fired."),
    }
    assert conditions.keys() == When.__annotations__.keys(), "as Broker.fault has them"
    return {
        "Fault": answer(**rule),
        "Faults": answer(faults=array(record(**rule))),
        "NewFault": _with(record(effect=effect), **conditions),
    }


def _arguments(made: list[str]) -> dict[str, Schema]:
    """Return schemas for the arguments of all effects, each with a list of its effects."""
    kinds: Mapping[str, Schema] = {
        "code": TEXT,
        "host": TEXT,
        "handled": FLAG,
        "keep": {"type": "number"},
        "seconds": {"type": "number"},
    }
    takers: dict[str, list[str]] = {}
    for name in made:
        for argument in signature(getattr(effects, name)).parameters.values():
            must = " (required)" if argument.default is Parameter.empty else ""
            takers.setdefault(argument.name, []).append(name + must)
    return {
        argument: told(kinds.get(argument, NUMBER), f"For {', '.join(names)}.")
        for argument, names in takers.items()
    }


def _of_groups() -> dict[str, Schema]:
    plain = {name: of_type(hint) for name, hint in get_type_hints(MemberNow).items()}
    del plain["partitions"]
    member = record(**plain, assignment=array(_OWNED))
    wanted = optional(
        stable=FLAG,
        state=TEXT,
        exists=FLAG,
        members=told(_COUNT, "Exact number of members."),
        assigned=told(array(_OWNED), "Assigned partitions."),
        generation=told(NUMBER, "Minimum generation."),
        lag=told(_COUNT, "Exact total lag in records."),
        committed=told(array(_OFFSET), "Exact committed offsets."),
        rounds=told(_COUNT, "Minimum number of rebalances started."),
        cause=told(TEXT, "Code of the last rebalance's cause, such as `session_expired`."),
        timeout_ms=_TIMEOUT,
    )
    return {
        "Groups": answer(groups=told(array(TEXT), "Group ids.")),
        "Group": answer(
            group=TEXT,
            exists=FLAG,
            state=told(TEXT, "As in DescribeGroups; Unknown while the coordinator loads."),
            generation=NUMBER,
            protocol=or_null(TEXT),
            leader=or_null(TEXT),
            members=array(member),
            committed=array(_OFFSET),
            lag=told(or_null(NUMBER), "Sum of `lags`; null if `lags` is empty."),
            lags=array(record(**_PLACE, lag=_COUNT)),
            rounds=told(array(ref("Round")), "Since the start or reset, oldest first."),
        ),
        "Round": ROUND,
        "Wait": wanted,
        "Expiry": record(member=told(TEXT, "Member, instance or client id.")),
        "Fencing": record(instance=told(TEXT, "`group.instance.id` of a static member.")),
        "Forcing": optional(reason=told(TEXT, "Reason, recorded in events and logs.")),
        "Timeline": answer(group=TEXT, text=told(TEXT, "As printed by `groupkeeper why`.")),
        "Committed": answer(group=TEXT, committed=array(_OFFSET)),
        "Commit": record(committed=array(_OFFSET)),
    }


# Any: JSON Schema.
def _of_topics() -> dict[str, Any]:
    told_data = {
        name: told(or_null(TEXT), _DATA) for name in ("key", "key_base64", "value", "value_base64")
    }
    value = {name: told_data[name] for name in ("value", "value_base64")}
    header = record(key=TEXT, **value)
    row = record(**_PLACE, offset=_COUNT, timestamp_ms=NUMBER, **told_data, headers=array(header))
    sent = optional(
        **told_data,
        partition=told(_COUNT, "Default: by the key; in turn for records without a key."),
        timestamp_ms=told(_COUNT, _AT),
        headers=array(_with(record(key=TEXT), **value)),
    )
    return {
        "Topics": answer(topics=array(record(topic=TEXT, partitions=_COUNT))),
        "NewTopic": _with(
            record(topic=TEXT),
            partitions=told(NUMBER | {"minimum": 1}, "Default 1."),
            configs=told({"type": "object", "additionalProperties": TEXT}, "As in CreateTopics."),
        ),
        "Records": answer(records=array(row)),
        "NewRecords": record(records=array(sent) | {"minItems": 1, "maxItems": RECORDS_MOST}),
    }


DOCUMENTED: Final = Documented(
    PREFIX,
    "Groupkeeper control",
    "Controls a test broker, like `groupkeeper.testing` in Python: see docs/testing-control.md."
    " Times (`..._ms`) are Unix milliseconds. Fields may be added.",
    schemas,
)
