"""Control API routes for the broker: start and stop, time, nodes, fault rules and log."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Final

from groupkeeper.testing import effects
from groupkeeper.testing.control.parts import Do, Routes, ServedBroker, number
from groupkeeper.testing.faults.rules import Effect, Rule
from groupkeeper.testing.time.control import TIMEOUT_S
from groupkeeper.web.parts import HttpRefused, Object, RoutedRequest

ROUTES: Final = Routes()

# -- start and stop --------------------------------------------------------------------------------


@ROUTES.add("GET", "broker", "Broker")
def broker_now(broker: ServedBroker, _: RoutedRequest) -> Object:
    """The broker's addresses and clock, and whether it is running."""
    return {
        "is_up": broker.is_up,
        "bootstrap_servers": broker.bootstrap_servers,
        "time_ms": broker.time_ms,
        "is_frozen": broker.is_frozen,
    }


def _acting(act: Callable[[ServedBroker], None], about: str) -> Do:
    def do(broker: ServedBroker, call: RoutedRequest) -> Object:
        act(broker)
        return broker_now(broker, call)

    do.__name__, do.__doc__ = act.__name__, about
    return do


for _path, _act, _about in (
    ("broker/reset", ServedBroker.reset, "Delete everything except the initial topics."),
    ("broker/crash", ServedBroker.crash, "Crash the broker as by `kill -9`."),
    ("broker/restart", ServedBroker.restart, "Start again; a running broker is crashed first."),
    ("time/freeze", ServedBroker.freeze, "Stop the clock of groups, offsets and retention."),
    ("time/resume", ServedBroker.resume, "Let the clock run again."),
):
    ROUTES.add("POST", _path, "Broker")(_acting(_act, _about))


@ROUTES.add("GET", "logs", "Logs")
def logs(broker: ServedBroker, _: RoutedRequest) -> Object:
    """The last lines of the broker's log."""
    return {"lines": broker.logs}


@ROUTES.add("GET", "transcript", "Transcript")
def transcript(broker: ServedBroker, _: RoutedRequest) -> Object:
    """All requests and responses, as text."""
    return {"text": broker.transcript()}


# -- time ------------------------------------------------------------------------------------------


@ROUTES.add("POST", "time/advance", "Broker", "Advance")
def advance(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Move the clock forward, and run everything that becomes due; members stay alive."""
    body = call.body
    silent, everyone = body.get("silent", ()), body.get("all", False)
    timeout = body.get("timeout_ms", TIMEOUT_S * 1000) / 1000
    broker.advance(body["seconds"], silent=silent, all=everyone, timeout=timeout)
    return broker_now(broker, call)


# -- nodes -----------------------------------------------------------------------------------------


@ROUTES.add("GET", "nodes", "Nodes")
def nodes(broker: ServedBroker, _: RoutedRequest) -> Object:
    """The nodes and their addresses."""
    rows = [{"id": each.id, "address": each.address, "is_up": each.is_up} for each in broker.nodes]
    return {"nodes": rows}


@ROUTES.add("POST", "nodes/{node}/stop", "Nodes")
def stop_node(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Hand over the node's partitions, then close its port."""
    broker.node(number(call, "node")).stop()
    return nodes(broker, call)


@ROUTES.add("POST", "nodes/{node}/start", "Nodes")
def start_node(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Listen on the node's port again."""
    broker.node(number(call, "node")).start()
    return nodes(broker, call)


@ROUTES.add("GET", "groups/{group}/coordinator", "Coordinator")
def coordinator(broker: ServedBroker, call: RoutedRequest) -> Object:
    """The node that coordinates a group."""
    group = call.names["group"]
    return {"group": group, "coordinator": broker.coordinator(group)}


@ROUTES.add("POST", "groups/{group}/coordinator", "Coordinator", "Move")
def move_coordinator(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Make another node the coordinator of a group."""
    broker.move_coordinator(call.names["group"], to=call.body["to"])
    return coordinator(broker, call)


@ROUTES.add("GET", "topics/{topic}/partitions/{partition}/leader", "Leader")
def leader(broker: ServedBroker, call: RoutedRequest) -> Object:
    """The node that leads a partition."""
    topic, partition = call.names["topic"], number(call, "partition")
    leader = broker.leader(topic, partition)
    return {"topic": topic, "partition": partition, "leader": leader}


@ROUTES.add("POST", "topics/{topic}/partitions/{partition}/leader", "Leader", "Move")
def move_leader(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Make another node the leader of a partition."""
    broker.move_leader(call.names["topic"], number(call, "partition"), to=call.body["to"])
    return leader(broker, call)


# -- faults ----------------------------------------------------------------------------------------


@ROUTES.add("GET", "faults", "Faults")
def faults(broker: ServedBroker, _: RoutedRequest) -> Object:
    """The fault rules with their hits."""
    return {"faults": [_rule(rule) for rule in broker.faults]}


@ROUTES.add("POST", "faults", "Fault", "NewFault")
def add_fault(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Add a fault rule for matching requests."""
    when = dict(call.body)
    effect = _effect(when.pop("effect"))
    if "versions" in when:
        when["versions"] = tuple(when["versions"])
    return _rule(broker.fault(effect, **when))


@ROUTES.add("DELETE", "faults/{fault}", "Fault")
def remove_fault(broker: ServedBroker, call: RoutedRequest) -> Object:
    """Remove a fault rule, and return it with its hits."""
    at = number(call, "fault")
    rule = next((each for each in broker.faults if each.number == at), None)
    if rule is None:
        raise HttpRefused(404, f"there is no fault {at}: GET faults lists them")
    rule.remove()
    return _rule(rule)


def _rule(rule: Rule) -> Object:
    return {"id": rule.number, "rule": repr(rule), "hits": rule.hits, "may_miss": rule.may_miss}


# Any: arguments of effects.
def _effect(given: Mapping[str, Any]) -> Effect:
    """Make an effect from {"name": ..., arguments}. Raises HttpRefused and WrongArgument."""
    arguments = dict(given)
    make = getattr(effects, arguments.pop("name"))
    try:
        signature(make).bind(**arguments)
    except TypeError as problem:
        raise HttpRefused(400, f"effect '{given['name']}': {problem}: see the document") from None
    effect: Effect = make(**arguments)
    return effect
