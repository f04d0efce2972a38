"""The table of routes of the control: what it serves, and what its OpenAPI document says."""

from typing import Final

from groupkeeper.testing.control import broker, groups
from groupkeeper.testing.control.parts import Do, change, look
from groupkeeper.web.parameters import Parameter
from groupkeeper.web.route import Handle, Route, table

_ALWAYS: Final = (403, 409, 500)
_OF_A_BODY: Final = (*_ALWAYS, 415)


def _get(path: str, do: Do, about: str, answer: str, *parameters: Parameter) -> Route:
    return Route(path, look(do), about, answer, table(*parameters), statuses=_ALWAYS)


def _post(path: str, do: Do, about: str, answer: str, body: str = "Nothing") -> Route:
    return _posted(path, change(do), about, answer, body)


def _posted(path: str, handle: Handle, about: str, answer: str, body: str) -> Route:
    statuses = (*_OF_A_BODY, 408, 503) if body == "Wait" else _OF_A_BODY
    return Route(path, handle, about, answer, {}, "POST", statuses, body)


ROUTES: Final = (
    _get("broker", broker.broker_now, "Whether the broker runs, and its time.", "Broker"),
    _post("broker/reset", broker.reset, "Forget all but the topics of the start.", "Broker"),
    _post("broker/crash", broker.crash, "End the broker as by `kill -9`.", "Broker"),
    _post("broker/restart", broker.restart, "Start it again; crash it first if it runs.", "Broker"),
    _get("logs", broker.logs, "The last lines of the broker's log.", "Logs"),
    _get("transcript", broker.transcript, "What clients and broker said.", "Transcript"),
    _post(
        "time/advance",
        broker.advance,
        "Move time ahead, through all that is due until then; members stay alive.",
        "Broker",
        "Advance",
    ),
    _post("time/freeze", broker.freeze, "Let time stand still for groups.", "Broker"),
    _post("time/resume", broker.resume, "Let time run again.", "Broker"),
    _get("faults", broker.faults, "The fault rules, and how often each fired.", "Faults"),
    _post("faults", broker.add_fault, "Let something happen to requests.", "Fault", "NewFault"),
    Route(
        "faults/{fault}",
        change(broker.remove_fault),
        "Remove a fault rule; the answer says how often it fired.",
        "Fault",
        {},
        "DELETE",
        (*_ALWAYS, 404),
    ),
    _get("nodes", broker.nodes, "The nodes, and where they listen.", "Nodes"),
    _post("nodes/{node}/stop", broker.stop_node, "Hand over, and close the port.", "Nodes"),
    _post("nodes/{node}/start", broker.start_node, "Listen on the port again.", "Nodes"),
    _get("groups", groups.groups, "The groups that exist.", "Groups"),
    _get(
        "groups/{group}",
        groups.group,
        "A group as it is now; whether it exists or not.",
        "Group",
    ),
    _posted(
        "groups/{group}/wait",
        groups.wait,
        "Wait until the group is as wanted; 408 says what is not so.",
        "Group",
        "Wait",
    ),
    _get(
        "groups/{group}/timeline",
        groups.timeline,
        "What happened to a group, and why, as text.",
        "Timeline",
    ),
    _post(
        "groups/{group}/expire",
        groups.expire,
        "End the session of a member now.",
        "Group",
        "Expiry",
    ),
    _post(
        "groups/{group}/fence",
        groups.fence,
        "Let another process take an instance id over.",
        "Group",
        "Fencing",
    ),
    _post("groups/{group}/rebalance", groups.rebalance, "Force a rebalance.", "Group", "Forcing"),
    _get("groups/{group}/committed", groups.committed, "Committed offsets.", "Committed"),
    _post(
        "groups/{group}/committed",
        groups.commit,
        "Commit offsets for a group without members.",
        "Committed",
        "Commit",
    ),
    _get(
        "groups/{group}/coordinator",
        broker.coordinator,
        "The node that coordinates a group.",
        "Coordinator",
    ),
    _post(
        "groups/{group}/coordinator",
        broker.move_coordinator,
        "Let another node coordinate a group.",
        "Coordinator",
        "Move",
    ),
    _get("topics", groups.topics, "The topics, without internal ones.", "Topics"),
    _post("topics", groups.create_topic, "Create a topic.", "Topics", "NewTopic"),
    _get(
        "topics/{topic}/records",
        groups.records,
        "All records that are in a topic.",
        "Records",
        Parameter("partition", "Of this partition only.", "number"),
    ),
    _post("topics/{topic}/records", groups.produce, "Append records.", "Records", "NewRecords"),
    _get(
        "topics/{topic}/partitions/{partition}/leader",
        broker.leader,
        "The node that leads a partition.",
        "Leader",
    ),
    _post(
        "topics/{topic}/partitions/{partition}/leader",
        broker.move_leader,
        "Let another node lead a partition.",
        "Leader",
        "Move",
    ),
)
"""In the order in which the document shows them."""
