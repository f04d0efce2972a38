"""What the control does with the broker itself: its life, time, nodes, fault rules and log."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from groupkeeper.testing import effects
from groupkeeper.testing.control.parts import ServedBroker
from groupkeeper.testing.faults.rules import Rule
from groupkeeper.testing.time.control import TIMEOUT_S
from groupkeeper.web.call import Call
from groupkeeper.web.parts import Object, Refused

# -- its life --------------------------------------------------------------------------------------


def broker_now(broker: ServedBroker, _: Call) -> Object:
    """`GET /broker`."""
    return {
        "is_up": broker.is_up,
        "bootstrap_servers": broker.bootstrap_servers,
        "time_ms": broker.time_ms,
        "is_frozen": broker.is_frozen,
    }


def reset(broker: ServedBroker, call: Call) -> Object:
    """`POST /broker/reset`."""
    broker.reset()
    return broker_now(broker, call)


def crash(broker: ServedBroker, call: Call) -> Object:
    """`POST /broker/crash`."""
    broker.crash()
    return broker_now(broker, call)


def restart(broker: ServedBroker, call: Call) -> Object:
    """`POST /broker/restart`."""
    broker.restart()
    return broker_now(broker, call)


def logs(broker: ServedBroker, _: Call) -> Object:
    """`GET /logs`."""
    return {"lines": broker.logs}


def transcript(broker: ServedBroker, _: Call) -> Object:
    """`GET /transcript`."""
    return {"text": broker.transcript()}


# -- time ------------------------------------------------------------------------------------------


def advance(broker: ServedBroker, call: Call) -> Object:
    """`POST /time/advance`."""
    body = call.body
    silent, everyone = body.get("silent", ()), body.get("all", False)
    timeout = body.get("timeout_ms", TIMEOUT_S * 1000) / 1000
    broker.advance(body["seconds"], silent=silent, all=everyone, timeout=timeout)
    return broker_now(broker, call)


def freeze(broker: ServedBroker, call: Call) -> Object:
    """`POST /time/freeze`."""
    broker.freeze()
    return broker_now(broker, call)


def resume(broker: ServedBroker, call: Call) -> Object:
    """`POST /time/resume`."""
    broker.resume()
    return broker_now(broker, call)


# -- nodes -----------------------------------------------------------------------------------------


def nodes(broker: ServedBroker, _: Call) -> Object:
    """`GET /nodes`."""
    rows = [{"id": each.id, "address": each.address, "is_up": each.is_up} for each in broker.nodes]
    return {"nodes": rows}


def stop_node(broker: ServedBroker, call: Call) -> Object:
    """`POST /nodes/N/stop`."""
    broker.node(_number(call, "node")).stop()
    return nodes(broker, call)


def start_node(broker: ServedBroker, call: Call) -> Object:
    """`POST /nodes/N/start`."""
    broker.node(_number(call, "node")).start()
    return nodes(broker, call)


def coordinator(broker: ServedBroker, call: Call) -> Object:
    """`GET /groups/G/coordinator`."""
    group = call.names["group"]
    return {"group": group, "coordinator": broker.coordinator(group)}


def move_coordinator(broker: ServedBroker, call: Call) -> Object:
    """`POST /groups/G/coordinator`."""
    broker.move_coordinator(call.names["group"], to=call.body["to"])
    return coordinator(broker, call)


def leader(broker: ServedBroker, call: Call) -> Object:
    """`GET /topics/T/partitions/P/leader`."""
    topic, partition = call.names["topic"], _number(call, "partition")
    leader = broker.leader(topic, partition)
    return {"topic": topic, "partition": partition, "leader": leader}


def move_leader(broker: ServedBroker, call: Call) -> Object:
    """`POST /topics/T/partitions/P/leader`."""
    broker.move_leader(call.names["topic"], _number(call, "partition"), to=call.body["to"])
    return leader(broker, call)


def _number(call: Call, name: str) -> int:
    """A part of the path. Raises Refused."""
    text = call.names[name]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(400, f"{name} '{text[:100]}' is no number")
    return int(text)


# -- faults ----------------------------------------------------------------------------------------


def faults(broker: ServedBroker, _: Call) -> Object:
    """`GET /faults`."""
    return {"faults": [_rule(number, rule) for number, rule in broker.rules.items()]}


def add_fault(broker: ServedBroker, call: Call) -> Object:
    """`POST /faults`."""
    when = dict(call.body)
    effect = _effect(when.pop("effect"))
    if "versions" in when:
        when["versions"] = tuple(when["versions"])
    rule = broker.fault(effect, **when)
    return next(_rule(n, each) for n, each in broker.rules.items() if each is rule)


def remove_fault(broker: ServedBroker, call: Call) -> Object:
    """`DELETE /faults/N`."""
    number = _number(call, "fault")
    rule = broker.rules.get(number)
    if rule is None:
        raise Refused(404, f"there is no fault {number}: GET faults lists them")
    rule.remove()
    return _rule(number, rule)


def _rule(number: int, rule: Rule) -> Object:
    return {"id": number, "rule": repr(rule), "hits": rule.hits, "may_miss": rule.may_miss}


# Any: arguments.
def _effect(given: Mapping[str, Any]) -> effects.Effect:
    """The effect of this name with these arguments. Raises Refused and WrongArgument."""
    arguments = dict(given)
    make = getattr(effects, arguments.pop("name"))
    try:
        signature(make).bind(**arguments)
    except TypeError as problem:
        raise Refused(400, f"effect '{given['name']}': {problem}: see the document") from None
    effect: effects.Effect = make(**arguments)
    return effect
