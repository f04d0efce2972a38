"""`groupkeeper control`: what the control port of `serve --dev --control` does, as commands."""

import http.client
import json
import sys
from collections.abc import Callable, Iterator, Mapping
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
        body: Mapping[str, Any] | None = None,
        lines: Callable[[Any], Iterator[str]] | None = None,
    ) -> None:
        """Ask, and print the answer. Raises ClickException."""
        found = self._ask(method, path, body)
        told = [json.dumps(found)] if self._as_json else [*(lines or _broker)(found)]
        sys.stdout.write("".join(f"{line}\n" for line in told))

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        where = format_address(self._address)
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, PREFIX + path, json.dumps(body or {}), headers)
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


def _path(*parts: object) -> str:
    return "/".join(quote(str(part), safe="") for part in parts)


passed = click.pass_obj

# -- the broker ------------------------------------------------------------------------------------


@control.command()
@passed
def status(of: _Control) -> None:
    """Whether the broker runs, and where."""
    of.call("GET", "broker")


@control.command()
@passed
def reset(of: _Control) -> None:
    """Forget all but the topics of the start; ports stay."""
    of.call("POST", "broker/reset")


@control.command()
@passed
def crash(of: _Control) -> None:
    """End the broker as by `kill -9`; what was acknowledged survives."""
    of.call("POST", "broker/crash")


@control.command()
@passed
def restart(of: _Control) -> None:
    """Start it again; crash it first if it runs."""
    of.call("POST", "broker/restart")


@control.command()
@passed
def logs(of: _Control) -> None:
    """Print the last lines of the broker's log."""
    of.call("GET", "logs", lines=lambda found: iter(found["lines"]))


@control.command()
@passed
def transcript(of: _Control) -> None:
    """Print what clients and broker said."""
    of.call("GET", "transcript", lines=lambda found: iter([found["text"]]))


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
    of.call("POST", "time/advance", {"seconds": seconds, "silent": silent, "all": everyone})


@control.command()
@passed
def freeze(of: _Control) -> None:
    """Let time stand still for groups, offsets and retention."""
    of.call("POST", "time/freeze")


@control.command()
@passed
def resume(of: _Control) -> None:
    """Let time run again."""
    of.call("POST", "time/resume")


# -- nodes -----------------------------------------------------------------------------------------


@control.command()
@click.argument("action", type=click.Choice(("list", "stop", "start")), default="list")
@click.argument("number", type=int, default=-1)
@passed
def node(of: _Control, action: str, number: int) -> None:
    """List the nodes of --brokers, or stop or start one."""
    if action == "list":
        of.call("GET", "nodes", lines=_nodes)
    elif number < 0:
        raise click.UsageError(f"name the node: groupkeeper control node {action} 2")
    else:
        of.call("POST", _path("nodes", number, action), lines=_nodes)


def _nodes(found: Any) -> Iterator[str]:
    for each in found["nodes"]:
        yield f"{each['id']}  {each['address']}  {'up' if each['is_up'] else 'down'}"


@control.command("move-coordinator")
@click.argument("group")
@click.argument("to", type=int)
@passed
def move_coordinator(of: _Control, group: str, to: int) -> None:
    """Let another node coordinate a group."""
    path = _path("groups", group, "coordinator")
    of.call("POST", path, {"to": to}, lambda found: iter([f"node {found['coordinator']}"]))


@control.command("move-leader")
@click.argument("topic")
@click.argument("partition", type=int)
@click.argument("to", type=int)
@passed
def move_leader(of: _Control, topic: str, partition: int, to: int) -> None:
    """Let another node lead a partition."""
    path = _path("topics", topic, "partitions", partition, "leader")
    of.call("POST", path, {"to": to}, lambda found: iter([f"node {found['leader']}"]))


# -- groups, topics and records --------------------------------------------------------------------


@control.command()
@click.argument("group", required=False)
@passed
def group(of: _Control, group: str | None) -> None:
    """List the groups, or say what a group does now, and why."""
    if group is None:
        of.call("GET", "groups", lines=lambda found: iter(found["groups"]))
    else:
        of.call(
            "GET", _path("groups", group, "timeline"), lines=lambda found: iter([found["text"]])
        )


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
@click.argument("member")
@passed
def expire(of: _Control, group: str, member: str) -> None:
    """End the session of a member (member, instance or client id) now."""
    of.call("POST", _path("groups", group, "expire"), {"member": member}, _group)


@control.command()
@click.argument("group")
@click.argument("instance")
@passed
def fence(of: _Control, group: str, instance: str) -> None:
    """Let another process take the id of a static member over."""
    of.call("POST", _path("groups", group, "fence"), {"instance": instance}, _group)


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


@control.command()
@click.argument("topic")
@passed
def records(of: _Control, topic: str) -> None:
    """Print the records of a topic."""
    of.call("GET", _path("topics", topic, "records"), lines=_records)


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
    of.call("POST", "faults", body, lambda found: iter([_rule(found)]))


@fault.command("list")
@passed
def list_faults(of: _Control) -> None:
    """Print the rules, and how often each fired."""
    of.call("GET", "faults", lines=lambda found: map(_rule, found["faults"]))


@fault.command("remove")
@click.argument("number", type=int)
@passed
def remove(of: _Control, number: int) -> None:
    """Remove a rule; says how often it fired."""
    of.call("DELETE", _path("faults", number), lines=lambda found: iter([_rule(found)]))


def _rule(found: Any) -> str:
    return f"{found['id']}  {found['hits']} hits  {found['rule']}"


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
