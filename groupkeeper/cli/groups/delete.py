"""`groupkeeper groups delete`."""

import sys
from typing import TYPE_CHECKING

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.groups.select import GroupSelection, group_options
from groupkeeper.cli.tables import show

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.protocol.errors import ErrorCode


@click.command()
@group_options
@cluster_options
def delete(selection: GroupSelection, cluster: Cluster) -> int:
    """Delete groups that have no members.

    Their offsets are deleted, too.

    \b
      groupkeeper groups delete --group billing --group shipping
      groupkeeper groups delete --group-regex 'console-consumer-\\d+'
    """

    async def work(client: "Client") -> int:
        from groupkeeper.client.groups import delete_groups

        ids, exit_code = await selection.ids(client)
        results = await delete_groups(client, ids)
        failed = [each for each, error in results.items() if error]
        for each in failed:
            why = await _why_not(client, each, results[each])
            print(f"groupkeeper: group '{each}' was not deleted: {why}", file=sys.stderr)
        if cluster.as_json:
            rows = [
                {"group": each, "status": error.name if error else "Successful"}
                for each, error in results.items()
            ]
            show(rows, as_json=True)
        elif done := [each for each, error in results.items() if not error]:
            names = ", ".join(f"'{each}'" for each in done)
            print(f"Deletion of requested consumer groups ({names}) was successful.")
        return FAILED if failed else exit_code

    return cluster.run(work)


async def _why_not(client: "Client", group_id: str, error: "ErrorCode") -> str:
    from groupkeeper.client.groups import describe_groups
    from groupkeeper.protocol.errors import ErrorCode

    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        return "it does not exist"
    if error is not ErrorCode.NON_EMPTY_GROUP:
        return error.name
    group = (await describe_groups(client, [group_id]))[group_id]
    return (
        f"it is {group.state} with {len(group.members)} members: stop them first, or remove them "
        f"with `groupkeeper groups remove-members --group {group_id}`"
    )
