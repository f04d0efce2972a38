"""`groupkeeper control`: what the control port of `serve --dev --control` does, as commands."""

import http.client
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote

import click

from groupkeeper.cli.addresses import port_address
from groupkeeper.cli.serve import CONTROL
from groupkeeper.settings.options import Address, format_address

PREFIX: Final = "/control/v1/"
TIMEOUT_S: Final = 400.0
"""Longer than any wait."""
MOST_BYTES: Final = 256 * 1024 * 1024

Lines = Callable[[Any], Iterable[str]]
"""What is printed of an answer. Any: JSON."""


@click.group()
@click.option(
    "--control",
    "address",
    callback=port_address,
    default=CONTROL,
    show_default=True,
    metavar="HOST:PORT",
    help="The control port: control= of the ready line.",
)
@click.option("--json", "as_json", is_flag=True, help="The whole answer, as one JSON object.")
@click.pass_context
def control(ctx: click.Context, address: Address, as_json: bool) -> None:
    """Control a test broker that was started with `groupkeeper serve --dev --control`.

    \b
    What passes 45 s after a consumer went silent, now:
      groupkeeper control advance 45 --silent consumer-1
    \b
    Two commits that fail, and whether they did:
      groupkeeper control fault add error code=NOT_COORDINATOR \\
        --when api=OffsetCommit --when times=2
      groupkeeper control fault list
    \b
    Until three consumers are assigned; exits with 2 and says why if that takes longer than 5 s:
      groupkeeper control wait billing --stable --members 3
    \b
    As after `kill -9`, and an empty broker for the next test:
      groupkeeper control crash && groupkeeper control restart
      groupkeeper control reset

    The same over HTTP is described at http://HOST:PORT/control/v1/openapi.json.
    Exit codes: 0 done, 2 refused, not so in time, or no answer.
    """
    ctx.obj = _Control(address, as_json)


# Any: JSON.
class _Control:
    """The control port of a broker, and how its answers are printed."""

    def __init__(self, address: Address, as_json: bool) -> None:
        self._address = address
        self._as_json = as_json

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        lines: Lines,
    ) -> None:
        """Ask, and print the answer. Raises ClickException."""
        found = self._ask(method, path, body)
        told = [json.dumps(found)] if self._as_json else [*lines(found)]
        sys.stdout.write("".join(f"{line}\n" for line in told))

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        where = format_address(self._address)
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, PREFIX + path, json.dumps(body), headers)
            answer = connection.getresponse()
            found = json.loads(answer.read(MOST_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise click.ClickException(
                f"no control port answers at {where} ({problem!r}): start the broker with "
                "groupkeeper serve --dev --control, or name its port with --control"
            ) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise click.ClickException(found.get("error", f"{where} answers {answer.status}"))
        return found


def _broker(found: Any) -> Iterator[str]:
    state = "runs" if found["is_up"] else "is down: groupkeeper control restart"
    frozen = ", its time stands still" if found["is_frozen"] else ""
    yield f"broker {found['bootstrap_servers']} {state}{frozen}"


def _text(found: Any) -> Iterator[str]:
    yield found["text"]


def _path(*parts: object) -> str:
    return "/".join(quote(str(part), safe="") for part in parts)


passed = click.pass_obj

# -- time ------------------------------------------------------------------------------------------


@control.command()
@click.argument("seconds", type=float)
@click.option(
    "--silent", multiple=True, metavar="MEMBER", help="A member, instance or client id. Repeatable."
)
@click.option("--all", "everyone", is_flag=True, help="No member stays alive.")
@passed
def advance(of: _Control, seconds: float, silent: tuple[str, ...], everyone: bool) -> None:
    """Move time ahead, through all that is due until then.

    Members whose connection is open and whose heartbeats came stay alive, but for silent ones.
    """
    body = {"seconds": seconds, "silent": silent, "all": everyone}
    of.call("POST", "time/advance", body, _broker)


# -- nodes -----------------------------------------------------------------------------------------


@control.command()
@click.argument("action", type=click.Choice(("list", "stop", "start")), default="list")
@click.argument("number", type=int, default=-1)
@passed
def node(of: _Control, action: str, number: int) -> None:
    """List the nodes of --brokers, or stop or start one."""
    if action == "list":
        of.call("GET", "nodes", {}, _nodes)
    elif number < 0:
        raise click.UsageError(f"name the node: groupkeeper control node {action} 2")
    else:
        of.call("POST", _path("nodes", number, action), {}, _nodes)


def _nodes(found: Any) -> Iterator[str]:
    for each in found["nodes"]:
        yield f"{each['id']}  {each['address']}  {'up' if each['is_up'] else 'down'}"


def _node(name: str) -> Lines:
    return lambda found: [f"node {found[name]}"]


# -- groups, topics and records --------------------------------------------------------------------


@control.command()
@click.argument("group", required=False)
@passed
def group(of: _Control, group: str | None) -> None:
    """List the groups, or say what a group does now, and why."""
    if group is None:
        of.call("GET", "groups", {}, itemgetter("groups"))
    else:
        of.call("GET", _path("groups", group, "timeline"), {}, _text)


@control.command()
@click.argument("group")
@click.option("--stable", is_flag=True, default=None, help="Its members are assigned.")
@click.option("--members", type=int, help="So many.")
@click.option("--state", help="As DescribeGroups has it, such as Empty.")
@click.option("--generation", type=int, help="It has reached this one.")
@click.option("--lag", type=int, help="Records left to read.")
@click.option("--cause", help="Of the last rebalance, such as session_expired.")
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Seconds.")
@passed
def wait(of: _Control, /, group: str, timeout: float, **wanted: Any) -> None:
    """Wait until a group is as wanted; says what is not so otherwise."""
    body = {name: value for name, value in wanted.items() if value is not None}
    if not body:
        raise click.UsageError("say what to wait for, such as --stable --members 3")
    body["timeout_ms"] = round(timeout * 1000)
    of.call("POST", _path("groups", group, "wait"), body, _group)


def _group(found: Any) -> Iterator[str]:
    names = [each["instance_id"] or each["client_id"] for each in found["members"]]
    told = f" ({', '.join(names)})" if names else ""
    yield (
        f"{found['group']}: {found['state']}, generation {found['generation']}, "
        f"{len(names)} members{told}, lag {found['lag']}"
    )


@control.command()
@click.argument("group")
@click.option("--reason", help="For events and logs.")
@passed
def rebalance(of: _Control, group: str, reason: str | None) -> None:
    """Force a rebalance."""
    body = {} if reason is None else {"reason": reason}
    of.call("POST", _path("groups", group, "rebalance"), body, _group)


@control.command()
@click.argument("topic")
@click.argument("value")
@click.option("--key")
@click.option("--partition", type=int)
@passed
def produce(of: _Control, /, topic: str, value: str, **more: Any) -> None:
    """Append a record."""
    row = {"value": value} | {name: each for name, each in more.items() if each is not None}
    of.call("POST", _path("topics", topic, "records"), {"records": [row]}, _records)


def _records(found: Any) -> Iterator[str]:
    for each in found["records"]:
        value = each["value"] if each["value_base64"] is None else each["value_base64"]
        yield f"{each['topic']}-{each['partition']}@{each['offset']}: {value}"


# -- faults ----------------------------------------------------------------------------------------


@control.group()
def fault() -> None:
    """Let faults happen to requests, by rule."""


@fault.command("add")
@click.argument("effect")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--when",
    multiple=True,
    metavar="NAME=VALUE",
    help="A condition: api, group, topic, partition, member, client_id, nth, times, probability, "
    "seed. Repeatable.",
)
@passed
def add(of: _Control, effect: str, arguments: tuple[str, ...], when: tuple[str, ...]) -> None:
    """Add a rule, such as `error code=NOT_COORDINATOR --when api=OffsetCommit`."""
    body = {"effect": {"name": effect} | _pairs(arguments)} | _pairs(when)
    of.call("POST", "faults", body, _rule)


def _rule(found: Any) -> Iterator[str]:
    yield f"{found['id']}  {found['hits']} hits  {found['rule']}"


def _rules(found: Any) -> Iterator[str]:
    for each in found["faults"]:
        yield from _rule(each)


def _pairs(given: tuple[str, ...]) -> dict[str, Any]:
    """NAME=VALUE, where numbers and true or false are read as JSON has them."""
    pairs: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            pairs[name] = value
    return pairs


# -- commands that are one request -----------------------------------------------------------------


def _add(name: str, request: str, lines: Lines, about: str, to: click.Group = control) -> None:
    """A command whose arguments are the names in the path of the request, in braces, and the fields
    of its body, after the path.
    """
    method, path, *fields = request.split()
    in_path = re.findall(r"{(\w+)}", path)

    def ask(of: _Control, /, **given: Any) -> None:
        names = {each: quote(str(given.pop(each)), safe="") for each in in_path}
        of.call(method, path.format(**names), given, lines)

    command = passed(ask)
    for each in reversed((*in_path, *fields)):
        command = click.argument(each, type=int if each in _NUMBERS else str)(command)
    to.command(name, help=about)(command)


_NUMBERS: Final = ("number", "partition", "to")
_add("status", "GET broker", _broker, "Whether the broker runs, and where.")
_add("reset", "POST broker/reset", _broker, "Forget all but the topics of the start; ports stay.")
_add(
    "crash",
    "POST broker/crash",
    _broker,
    "End the broker as by `kill -9`; what was acknowledged survives.",
)
_add("restart", "POST broker/restart", _broker, "Start it again; crash it first if it runs.")
_add("logs", "GET logs", itemgetter("lines"), "Print the last lines of the broker's log.")
_add("transcript", "GET transcript", _text, "Print what clients and broker said.")
_add(
    "freeze", "POST time/freeze", _broker, "Let time stand still for groups, offsets and retention."
)
_add("resume", "POST time/resume", _broker, "Let time run again.")
_add(
    "move-coordinator",
    "POST groups/{group}/coordinator to",
    _node("coordinator"),
    "Let another node coordinate a group.",
)
_add(
    "move-leader",
    "POST topics/{topic}/partitions/{partition}/leader to",
    _node("leader"),
    "Let another node lead a partition.",
)
_add(
    "expire",
    "POST groups/{group}/expire member",
    _group,
    "End the session of a member (member, instance or client id) now.",
)
_add(
    "fence",
    "POST groups/{group}/fence instance",
    _group,
    "Let another process take the id of a static member over.",
)
_add("records", "GET topics/{topic}/records", _records, "Print the records of a topic.")
_add("list", "GET faults", _rules, "Print the rules, and how often each fired.", fault)
_add("remove", "DELETE faults/{number}", _rule, "Remove a rule; says how often it fired.", fault)
