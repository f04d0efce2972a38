"""JSON Schemas of the control's bodies and answers, for its OpenAPI document. Bodies are checked
against them.
"""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, Final, get_type_hints

from groupkeeper.protocol.registry import APIS
from groupkeeper.testing import effects
from groupkeeper.testing.faults.rules import Effect, When
from groupkeeper.testing.time.control import MOST_S
from groupkeeper.testing.views import MemberNow, Round
from groupkeeper.web.openapi import Documented
from groupkeeper.web.schemas import (
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    array,
    of_type,
    or_null,
    record,
    ref,
    told,
)

PREFIX: Final = "/control/v1/"
WAIT_MOST_MS: Final = 300_000
RECORDS_MOST: Final = 10_000
"""Of a request; its body is limited besides."""

_COUNT: Final = NUMBER | {"minimum": 0}
_AT: Final = "Unix milliseconds, by the broker's clock."
_TIMEOUT: Final = told(
    _COUNT | {"maximum": WAIT_MOST_MS}, "Milliseconds of the machine's clock; 5000 unless given."
)
_PLACE: Final = {"topic": TEXT, "partition": _COUNT}
_OFFSET: Final = record(**_PLACE, offset=_COUNT)
_OWNED: Final = record(topic=TEXT, partitions=array(_COUNT))
_DATA: Final = "Text; in base64 under the other name if it is none. Null if neither has a value."

ROUND: Final = record(
    **{
        name: of_type(get_type_hints(each.fget)["return"])
        for name, each in vars(Round).items()
        if isinstance(each, property)
    }
)
"""All properties of a round, under their own names."""


def answer(**properties: Schema) -> Schema:
    """A whole answer."""
    return record(cluster=told(TEXT, "Id of the cluster."), **properties)


def optional(**properties: Schema) -> Schema:
    """A body whose fields may be left out."""
    return {"type": "object", "properties": properties, "required": []}


def _with(required: Schema, **more: Schema) -> Schema:
    return required | {"properties": required["properties"] | more}


def schemas() -> dict[str, Schema]:
    """All, by name."""
    return (
        {"Error": answer(error=told(TEXT, "What is wrong, and what to do.")), "Nothing": optional()}
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
            bootstrap_servers=told(TEXT, "HOST:PORT of each node that runs."),
            time_ms=told(NUMBER, _AT),
            is_frozen=FLAG,
        ),
        "Advance": _with(
            record(seconds=told(seconds, "How far time moves ahead.")),
            silent=silent,
            all=told(FLAG, "No member stays alive."),
            timeout_ms=_TIMEOUT,
        ),
        "Transcript": answer(text=told(TEXT, "One line for each request and answer.")),
        "Logs": answer(lines=told(array(TEXT), "The last ones.")),
    }


def _of_nodes() -> dict[str, Schema]:
    node = told(_COUNT, "Id of a node.")
    return {
        "Nodes": answer(nodes=array(record(id=node, address=TEXT, is_up=FLAG))),
        "Move": record(to=node),
        "Coordinator": answer(group=TEXT, coordinator=node),
        "Leader": answer(**_PLACE, leader=node),
    }


def _of_faults() -> dict[str, Schema]:
    rule = {
        "id": _COUNT,
        "rule": told(TEXT, "As it was made."),
        "hits": told(_COUNT, "How often it fired."),
        "may_miss": FLAG,
    }
    made = sorted(
        name for name, each in vars(effects).items() if callable(each) and each is not Effect
    )
    effect = _with(record(name=told(TEXT | {"enum": made}, "What happens.")), **_arguments(made))
    conditions: dict[str, Schema] = dict.fromkeys(("group", "topic", "client_id"), TEXT) | {
        "api": told(
            {"type": ["string", "array"], "items": TEXT},
            f"Names of APIs: {', '.join(api.name for api in APIS.values())}.",
        ),
        "versions": told(array(_COUNT), "The first and the last one."),
        "partition": _COUNT,
        "member": told(TEXT, "Member or instance id."),
        "nth": told(NUMBER | {"minimum": 1}, "The first of the matching requests, from 1 on."),
        "times": told(NUMBER | {"minimum": 1}, "How often it happens at most."),
        "probability": {"type": "number", "minimum": 0, "maximum": 1},
        "seed": told(NUMBER, "Of `probability`."),
        "may_miss": told(FLAG, "It is no error if it never fires."),
    }
    assert conditions.keys() == When.__annotations__.keys(), "as Broker.fault has them"
    return {
        "Fault": answer(**rule),
        "Faults": answer(faults=array(record(**rule))),
        "NewFault": _with(record(effect=effect), **conditions),
    }


def _arguments(made: list[str]) -> dict[str, Schema]:
    """The arguments of all effects, each with the effects that take it."""
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
        argument: told(kinds.get(argument, NUMBER), f"Of {', '.join(names)}.")
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
        members=told(_COUNT, "So many."),
        assigned=told(array(_OWNED), "Partitions that members have."),
        generation=told(NUMBER, "It has reached this one."),
        lag=told(_COUNT, "Records left to read."),
        committed=told(array(_OFFSET), "These offsets are committed."),
        rounds=told(_COUNT, "So many rebalances have begun, or more."),
        cause=told(TEXT, "Code of what triggered the last rebalance, as `session_expired`."),
        timeout_ms=_TIMEOUT,
    )
    return {
        "Groups": answer(groups=told(array(TEXT), "Ids.")),
        "Group": answer(
            group=TEXT,
            exists=FLAG,
            state=told(TEXT, "As DescribeGroups has it; Unknown while the broker loads it."),
            generation=NUMBER,
            protocol=or_null(TEXT),
            leader=or_null(TEXT),
            members=array(member),
            committed=array(_OFFSET),
            lag=told(or_null(NUMBER), "The sum of `lags`; null without any."),
            lags=array(record(**_PLACE, lag=_COUNT)),
            rounds=told(array(ref("Round")), "Since the start or reset, the oldest first."),
        ),
        "Round": ROUND,
        "Wait": wanted,
        "Expiry": record(member=told(TEXT, "Member, instance or client id.")),
        "Fencing": record(instance=told(TEXT, "`group.instance.id` of a static member.")),
        "Forcing": optional(reason=told(TEXT, "For events and logs.")),
        "Timeline": answer(group=TEXT, text=told(TEXT, "As `groupkeeper why` prints it.")),
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
        partition=told(_COUNT, "By the key unless given, or in turn without one."),
        timestamp_ms=told(_COUNT, _AT),
        headers=array(_with(record(key=TEXT), **value)),
    )
    return {
        "Topics": answer(topics=array(record(topic=TEXT, partitions=_COUNT))),
        "NewTopic": _with(
            record(topic=TEXT),
            partitions=told(NUMBER | {"minimum": 1}, "1 unless given."),
            configs=told({"type": "object", "additionalProperties": TEXT}, "As in CreateTopics."),
        ),
        "Records": answer(records=array(row)),
        "NewRecords": record(records=array(sent) | {"minItems": 1, "maxItems": RECORDS_MOST}),
    }


DOCUMENTED: Final = Documented(
    PREFIX,
    "Groupkeeper control",
    "Does with a test broker what `groupkeeper.testing` does in Python: docs/testing-control.md."
    " Times are Unix milliseconds (`..._ms`). Fields may be added.",
    schemas,
)
