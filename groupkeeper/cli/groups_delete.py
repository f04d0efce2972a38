"""`groupkeeper groups delete` and `groupkeeper groups delete-offsets`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from groupkeeper.cli.cluster import FAILED, Cluster, Refused, cluster_options
from groupkeeper.cli.groups_select import Selection, group_options
from groupkeeper.cli.progress import counting
from groupkeeper.cli.tables import Table
from groupkeeper.cli.topic_words import partitions_of

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.protocol.errors import ErrorCode

GROUPS_AT_ONCE = 500
STATUS = {"topic": "TOPIC", "partition": "PARTITION", "status": "STATUS"}
DELETED = {"group": "GROUP", "status": "STATUS"}
DONE = "Successful"
NO_PARTITION = -1
"""Of a topic that does not exist."""


@click.command()
@group_options
@cluster_options
def delete(selection: Selection, cluster: Cluster) -> int:
    """Delete groups that have no members.

    Their offsets are deleted, too.

    \b
      groupkeeper groups delete --group billing --group shipping
      groupkeeper groups delete --group-regex 'console-consumer-\\d+'
    """

    async def work(client: "Client") -> int:
        from groupkeeper.client.coordinators import chunks
        from groupkeeper.client.groups import delete_groups

        ids, exit_code = await selection.ids(client)
        results: dict[str, ErrorCode] = {}
        with counting("groups", len(ids), GROUPS_AT_ONCE) as told:
            for some in chunks(ids, GROUPS_AT_ONCE):
                results |= await delete_groups(client, some)
                told(len(some))
        failed = [each for each, error in results.items() if error]
        for each in failed:
            why = await _why_not(client, each, results[each])
            print(f"groupkeeper: group '{each}' was not deleted: {why}", file=sys.stderr)
        if cluster.as_json:
            Table(DELETED, as_json=True).show(
                {"group": each, "status": error.name if error else DONE}
                for each, error in results.items()
            )
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


@click.command(name="delete-offsets")
@click.option("--group", required=True, metavar="ID", help="The group.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,1,...]",
    help="A topic, all of it or some partitions; may be repeated.",
)
@cluster_options
def delete_offsets(group: str, topics: tuple[str, ...], cluster: Cluster) -> int:
    """Delete offsets of a group.

    No member of the group may be subscribed to the topics.

    \b
      groupkeeper groups delete-offsets --group billing --topic old-orders --topic orders:0,1
    """

    async def work(client: "Client") -> int:
        results = await _delete_offsets(client, group, topics)
        if all(status == DONE for status in results.values()):
            if not cluster.as_json:
                names = ", ".join(topics)
                print(f"Request succeeded for deleting offsets from group {group}, topics {names}.")
        else:
            print(f"groupkeeper: some offsets of group '{group}' were not deleted", file=sys.stderr)
        Table(STATUS, as_json=cluster.as_json).show(
            {
                "topic": topic,
                "partition": None if partition == NO_PARTITION else partition,
                "status": status,
            }
            for (topic, partition), status in sorted(results.items())
        )
        return FAILED if any(status != DONE for status in results.values()) else 0

    return cluster.run(work)


async def _delete_offsets(
    client: "Client", group_id: str, topics: Sequence[str]
) -> dict[tuple[str, int], str]:
    """What became of each partition. Raises Refused if the group as a whole is refused."""
    from groupkeeper.client import CallFailed
    from groupkeeper.client.groups import delete_offsets
    from groupkeeper.protocol.errors import ErrorCode

    partitions, missing = await partitions_of(client, topics)
    try:
        results = await delete_offsets(client, group_id, partitions)
    except CallFailed as failure:
        if failure.error is ErrorCode.GROUP_ID_NOT_FOUND:
            raise Refused(f"group '{group_id}' does not exist") from failure
        if failure.error is ErrorCode.NON_EMPTY_GROUP:
            why = await _why_not(client, group_id, failure.error)
            raise Refused(f"offsets of group '{group_id}' were not deleted: {why}") from failure
        raise
    found = {(topic, NO_PARTITION): _status(error) for topic, error in missing.items()}
    return found | {each: _status(error) for each, error in results.items()}


def _status(error: "ErrorCode") -> str:
    from groupkeeper.protocol.errors import ErrorCode

    if error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return "Error: a member of the group is subscribed to the topic; stop the members first"
    return f"Error: {error.name}" if error else DONE
