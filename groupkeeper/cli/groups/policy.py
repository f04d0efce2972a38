"""`groupkeeper groups policy`: the configs of groups, of which `classic.*` are policies."""

import sys
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.groups.select import GroupSelection, group_options
from groupkeeper.cli.tables import TableRow, show

if TYPE_CHECKING:
    from groupkeeper.client import Client

SET, DEFAULT = "group", "default"
POLICIES: Final = "classic."
"""What the names of policies begin with."""


@click.command()
@group_options
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="Set a config.")
@click.option("--unset", multiple=True, metavar="NAME", help="Return a config to its default.")
@click.option("--clear", is_flag=True, help="Return all policies (classic.*) to their defaults.")
@cluster_options
def policy(
    selection: GroupSelection,
    given: tuple[str, ...],
    unset: tuple[str, ...],
    clear: bool,
    cluster: Cluster,
) -> int:
    """Show and set configs of groups.

    With classic.* the coordinator does for groups what Kafka leaves to clients (docs/policies.md).
    Configs exist without their group, too: set them before its members start. Those of Kafka
    (consumer.*) are for groups of the protocol of KIP-848. The same as
    kafka-configs --entity-type groups.

    \b
    Keep the partitions of lost members for a minute:
      groupkeeper groups policy --group billing --set classic.scheduled.rebalance.max.delay.ms=60000
    \b
    What is set, and no policies any more:
      groupkeeper groups policy --group billing
      groupkeeper groups policy --group billing --clear
    """
    changes = _changes(given, unset, clear)

    async def work(client: "Client") -> int:
        ids, exit_code = await selection.ids(client)
        if clear:
            return await _clear(client, ids, changes, cluster.as_json) or exit_code
        return await _change_and_show(client, ids, changes, cluster.as_json) or exit_code

    return cluster.run(work)


def _changes(given: tuple[str, ...], unset: tuple[str, ...], clear: bool) -> dict[str, str | None]:
    """Return the changes by name; None unsets."""
    changes: dict[str, str | None] = {}
    for each in given:
        name, is_given, value = each.partition("=")
        if not is_given or not name.strip():
            raise click.BadParameter(f"'{each}' is not NAME=VALUE", param_hint="--set")
        changes[name.strip()] = value.strip()
    for name in unset:
        if name in changes:
            raise click.UsageError(f"{name} is both set and unset")
        changes[name] = None
    if clear and any(name.startswith(POLICIES) for name in changes):
        raise click.UsageError("--clear unsets all policies: set others without it")
    return changes


async def _clear(
    client: "Client", ids: list[str], changes: dict[str, str | None], as_json: bool
) -> int:
    from groupkeeper.client.group_configs import Failure, describe_configs

    exit_code = 0
    for name, configs in (await describe_configs(client, ids)).items():
        found = [] if isinstance(configs, Failure) else configs
        policies = dict.fromkeys(
            each.name for each in found if each.is_set and each.name.startswith(POLICIES)
        )
        exit_code |= await _change_and_show(client, [name], {**policies, **changes}, as_json)
    return exit_code


async def _change_and_show(
    client: "Client", ids: list[str], changes: dict[str, str | None], as_json: bool
) -> int:
    from groupkeeper.client.group_configs import Failure, alter_configs, describe_configs

    refused = await alter_configs(client, ids, changes) if changes and ids else {}
    for name, failure in refused.items():
        print(f"groupkeeper: group '{name}' was not changed: {failure}", file=sys.stderr)
    shown: list[TableRow] = []
    exit_code = FAILED if refused else 0
    for name, configs in (await describe_configs(client, ids) if ids else {}).items():
        if isinstance(configs, Failure):
            print(f"groupkeeper: group '{name}': {configs}", file=sys.stderr)
            exit_code = FAILED
            continue
        shown += [
            {
                "group": name,
                "config": each.name,
                "value": each.value,
                "from": SET if each.is_set else DEFAULT,
            }
            for each in configs
        ]
    show(shown, as_json=as_json)
    return exit_code
