"""`groupkeeper groups list`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.groups.select import CONSUMER_PROTOCOLS, tell_none, tell_unlisted
from groupkeeper.cli.tables import show
from groupkeeper.why.texts import printable

if TYPE_CHECKING:
    from groupkeeper.client import Client

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
CONSUMER_STATES = ("Assigning", "Reconciling")
"""States of groups of the new protocol only (KIP-848)."""
TYPES = ("Classic", "Consumer")
EVERY = ""
"""Value of an option given without a value."""


def _named(option: str, known: Sequence[str]) -> Callable[..., tuple[str, ...] | None]:
    """Return a callback that parses "stable,empty", in any case, with or without spaces."""

    def read(_: object, __: object, value: str | None) -> tuple[str, ...] | None:
        if not value:
            return None if value is None else ()
        names = {each.lower(): each for each in known}
        asked = [each.strip().lower() for each in value.split(",")]
        if unknown := [each for each in asked if each not in names]:
            told = f"'{unknown[0]}' is not one of {', '.join(known)}"
            raise click.BadParameter(told, param_hint=option)
        return tuple(names[each] for each in asked)

    return read


@click.command(name="list")
@click.option(
    "--state",
    "states",
    is_flag=False,
    flag_value=EVERY,
    metavar="[STATES]",
    callback=_named("--state", (*STATES, *CONSUMER_STATES)),
    help="Show the states; with a value like stable,empty only groups in these.",
)
@click.option(
    "--type",
    "types",
    is_flag=False,
    flag_value=EVERY,
    metavar="[TYPES]",
    callback=_named("--type", TYPES),
    help="Show the types; with a value, classic or consumer, only groups of these.",
)
@click.option(
    "--protocol",
    is_flag=False,
    flag_value=EVERY,
    metavar="[PROTOCOL]",
    help="Show the protocols, not only that of consumers; with a value, only this one.",
)
@cluster_options
def list(  # noqa: A001 the name of the command
    states: tuple[str, ...] | None,
    types: tuple[str, ...] | None,
    protocol: str | None,
    cluster: Cluster,
) -> int:
    """List consumer groups by name.

    \b
      groupkeeper groups list
      groupkeeper groups list --state stable,preparingrebalance
      groupkeeper groups list --protocol connect
    """
    given = {"type": types, "state": states, "protocol": protocol}
    columns = ["group", *(name for name, value in given.items() if value is not None)]

    async def work(client: "Client") -> int:
        from groupkeeper.client.groups import list_groups

        listed = await list_groups(client, states or (), types or ())
        wanted = CONSUMER_PROTOCOLS if protocol is None else (protocol,)
        rows = [
            {
                "group": each.group_id,
                "type": each.group_type.capitalize() or "Unknown",
                "state": each.group_state or "Unknown",
                "protocol": each.protocol_type,
            }
            for each in listed
            if protocol == EVERY or each.protocol_type in wanted
        ]
        if len(columns) > 1 or cluster.as_json:
            show([{key: row[key] for key in columns} for row in rows], as_json=cluster.as_json)
        else:
            print("".join(f"{printable(row['group'])}\n" for row in rows), end="", flush=True)
        code = await tell_unlisted(client)
        if not (rows or code or cluster.as_json):
            tell_none(is_any=bool(listed or states or types))
        return code

    return cluster.run(work)
