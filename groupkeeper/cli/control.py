"""`groupkeeper control`: the control port of `serve --dev --control`, as commands."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.http_port import PROBLEMS, ask_json
from groupkeeper.cli.options import address_option, json_rows, timeout_option
from groupkeeper.cli.serve import CONTROL
from groupkeeper.settings.options import Address, format_address

PREFIX: Final = "/control/v1/"
TIMEOUT_S: Final = 400.0
"""Longer than any wait."""
MOST_BYTES: Final = 256 * 1024 * 1024
# Any: JSON.
_Lines = Callable[[Any], Iterable[str]]


@click.group(short_help="Control time, faults and crashes of a test broker.")
@address_option("control", CONTROL, "The control port: control= of the ready line.")
@json_rows("The whole answer, as one JSON object.")
@click.pass_context
def control(ctx: click.Context, control: Address, as_json: bool) -> None:
    """Control a test broker that was started with `groupkeeper serve --dev --control`.

    \b
    See now what happens 45 s after a consumer falls silent:
      groupkeeper control advance 45 --silent consumer-1
    \b
    Let two commits fail, and check that they did:
      groupkeeper control fault add error code=NOT_COORDINATOR \\
        --when api=OffsetCommit --when times=2
      groupkeeper control fault list
    \b
    Wait until three consumers are assigned; after 5 s, exit with 1 and the reason:
      groupkeeper control wait billing --stable --members 3
    \b
    Crash as by `kill -9` and restart; then get an empty broker for the next test:
      groupkeeper control crash && groupkeeper control restart
      groupkeeper control reset

    All requests are described at http://HOST:PORT/control/v1/openapi.json: `call` sends any.
    """
    ctx.obj = _Control(control, as_json)


@control.group()
def fault() -> None:
    """Inject faults into requests, by rule."""


class _Control:
    """The control port of a broker, and how its answers are printed."""

    def __init__(self, address: Address, as_json: bool) -> None:
        self._address = address
        self._as_json = as_json

    def call(self, method: str, path: str, body: Mapping[str, Any], lines: _Lines) -> None:
        """Send a request, and print the answer. Raises CommandRefused."""
        where = format_address(self._address)
        try:
            status, found = ask_json(
                self._address, PREFIX + path, TIMEOUT_S, MOST_BYTES, method, body
            )
        except PROBLEMS as problem:
            raise CommandRefused(
                f"no control port answers at {where} ({problem!r}): start the broker with "
                "groupkeeper serve --dev --control, or name its port with --control"
            ) from None
        if status != 200:
            raise CommandRefused(found.get("error", f"{where} answers {status}"))
        told = [json.dumps(found)] if self._as_json else lines(found)
        sys.stdout.write("".join(f"{line}\n" for line in told))


# -- answers as lines ------------------------------------------------------------------------------


def _broker(found: Any) -> Iterator[str]:
    state = "is running" if found["is_up"] else "is down: groupkeeper control restart"
    frozen = ", its time is frozen" if found["is_frozen"] else ""
    yield f"broker {found['bootstrap_servers']} {state}{frozen}"


def _group(found: Any) -> Iterator[str]:
    names = [each["instance_id"] or each["client_id"] for each in found["members"]]
    told = f" ({', '.join(names)})" if names else ""
    yield (
        f"{found['group']}: {found['state']}, generation {found['generation']}, "
        f"{len(names)} members{told}, lag {found['lag']}"
    )


def _rule(found: Any) -> str:
    return f"{found['id']}  {found['hits']} hits  {found['rule']}"


# -- commands --------------------------------------------------------------------------------------


def _command(name: str, asked: str, about: str) -> None:
    """Add a command without parameters; `asked` is the method and the path."""

    def run() -> None:
        click.get_current_context().obj.call(*asked.split(), {}, _broker)

    control.add_command(click.Command(name, callback=run, help=about))


_command("status", "GET broker", "Print whether the broker is running, and where.")
_command("reset", "POST broker/reset", "Reset to the topics of the start; ports stay.")
_command("crash", "POST broker/crash", "End the broker as by `kill -9`; acknowledged data stays.")
_command("restart", "POST broker/restart", "Restart the broker; a running one is crashed first.")
_command("freeze", "POST time/freeze", "Freeze time for groups, offsets and retention.")
_command("resume", "POST time/resume", "Let time run again.")


@control.command()
@click.argument("seconds", type=float)
@click.option(
    "--silent", multiple=True, metavar="MEMBER", help="A member, instance or client id. Repeatable."
)
@click.option("--all", is_flag=True, help="No member stays alive.")
@click.pass_obj
def advance(of: _Control, /, **body: Any) -> None:
    """Move time ahead, through everything that is due.

    Members with an open connection and timely heartbeats stay alive, except silent ones.
    """
    of.call("POST", "time/advance", body, _broker)


@control.command()
@click.argument("group", required=False)
@click.pass_obj
def group(of: _Control, group: str | None) -> None:
    """List the groups, or print the timeline of a group."""
    if group is None:
        of.call("GET", "groups", {}, lambda found: found["groups"])
    else:
        path = f"groups/{quote(group, safe='')}/timeline"
        of.call("GET", path, {}, lambda found: [found["text"]])


@control.command()
@click.argument("group")
@click.option("--stable", is_flag=True, default=None, help="All members are assigned.")
@click.option("--members", type=int, help="Number of members.")
@click.option("--state", help="State as in DescribeGroups, such as Empty.")
@click.option("--generation", type=int, help="Minimum generation.")
@click.option("--lag", type=int, help="Number of records left to read.")
@click.option("--cause", help="Cause of the last rebalance, such as session_expired.")
@timeout_option("How long to wait.", 5.0)
@click.pass_obj
def wait(of: _Control, /, group: str, timeout_ms: int, **wanted: Any) -> None:
    """Wait until a group meets all conditions.

    After the timeout the unmet conditions are printed.
    """
    body = {name: value for name, value in wanted.items() if value is not None}
    if not body:
        raise click.UsageError("say what to wait for, such as --stable --members 3")
    body["timeout_ms"] = timeout_ms
    of.call("POST", f"groups/{quote(group, safe='')}/wait", body, _group)


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
@click.pass_obj
def add(of: _Control, effect: str, arguments: tuple[str, ...], when: tuple[str, ...]) -> None:
    """Add a rule, such as `error code=NOT_COORDINATOR --when api=OffsetCommit`."""
    body = {"effect": {"name": effect} | _pairs(arguments)} | _pairs(when)
    of.call("POST", "faults", body, lambda found: [_rule(found)])


@fault.command("list")
@click.pass_obj
def list_rules(of: _Control) -> None:
    """Print the rules, and how often each fired."""
    of.call("GET", "faults", {}, lambda found: map(_rule, found["faults"]))


@fault.command("remove")
@click.argument("number", type=int)
@click.pass_obj
def remove(of: _Control, number: int) -> None:
    """Remove a rule; print how often it fired."""
    of.call("DELETE", f"faults/{number}", {}, lambda found: [_rule(found)])


@control.command()
@click.argument("method", type=click.Choice(("GET", "POST", "DELETE")))
@click.argument("path")
@click.argument("fields", nargs=-1, metavar="[NAME=VALUE]...")
@click.pass_obj
def call(of: _Control, method: str, path: str, fields: tuple[str, ...]) -> None:
    """Send any request of the control port; print the answer as JSON.

    \b
      groupkeeper control call GET groups/billing
      groupkeeper control call POST groups/billing/rebalance reason=deploy
      groupkeeper control call POST topics/orders/records 'records=[{"value": "a"}]'
    """
    of.call(method, path, _pairs(fields), lambda found: [json.dumps(found)])


def _pairs(given: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs; numbers and booleans are read as JSON."""
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
