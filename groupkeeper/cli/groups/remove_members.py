"""`groupkeeper groups remove-members`: the command that KIP-345 planned for administrators."""

import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.groups.select import GroupSelection, group_options
from groupkeeper.cli.tables import TableRow, show

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import DescribedMember
    from groupkeeper.protocol.errors import ErrorCode

REASON = "member was removed by an admin"
"""The same as in Kafka's admin client."""
PLANNED, REMOVED = "Would be removed", "Removed"


@click.command(name="remove-members")
@group_options
@click.option("--member-id", multiple=True, metavar="PATTERN", help="Ids, as in describe.")
@click.option("--instance-id", multiple=True, metavar="PATTERN", help="group.instance.id.")
@click.option("--client-id", multiple=True, metavar="PATTERN", help="client.id.")
@click.option("--host", multiple=True, metavar="PATTERN", help="Address, such as 10.0.0.7.")
@click.option("--all-members", is_flag=True, help="Every member of the groups.")
@click.option("--reason", metavar="TEXT", help="Sent to the coordinator, which may log it.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done: the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@cluster_options
def remove_members(
    selection: GroupSelection,
    all_members: bool,
    reason: str | None,
    dry_run: bool,
    execute: bool,
    cluster: Cluster,
    **given: tuple[str, ...],
) -> int:
    """Remove members from groups.

    They are removed at once, not after their session timeouts. Patterns use *, ? and [...];
    several values of one option match any, different options must all match. Nothing changes
    without --execute. A consumer that is still running rejoins: stop it first.

    \b
      groupkeeper groups remove-members --group billing --instance-id 'pod-9*'
      groupkeeper groups remove-members --all-groups --host 10.0.0.7 --reason "lost rack" --execute
    """
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute are mutually exclusive")
    patterns = {each: some for each, some in given.items() if some}
    if bool(patterns) == all_members:
        raise click.UsageError(
            "Select members with --member-id, --instance-id, --client-id, --host, or --all-members"
        )

    async def work(client: "Client") -> int:
        ids, exit_code = await selection.ids(client)
        chosen = await _matching(client, ids, patterns)
        statuses = {group: [PLANNED] * len(members) for group, members in chosen.items()}
        if execute:
            for group, members in chosen.items():
                statuses[group] = await _remove(client, group, members, reason)
        rows = [
            _row(group, member, status)
            for group, members in chosen.items()
            for member, status in zip(members, statuses[group], strict=True)
        ]
        show(rows, as_json=cluster.as_json)
        if not (dry_run or execute):
            print("groupkeeper: nothing was changed: add --execute", file=sys.stderr)
        kept = any(each not in (PLANNED, REMOVED) for some in statuses.values() for each in some)
        return FAILED if kept else exit_code

    return cluster.run(work)


async def _matching(
    client: "Client", ids: Sequence[str], patterns: Mapping[str, Sequence[str]]
) -> "dict[str, Sequence[DescribedMember]]":
    """Return the matching members of each group. Raises CommandRefused if there are none, or if a
    named group does not exist.
    """
    from groupkeeper.client.groups import DEAD, describe_groups

    found: dict[str, Sequence[DescribedMember]] = {}
    count = 0
    for name, group in (await describe_groups(client, ids)).items():
        if group.state == DEAD:
            raise CommandRefused(f"group '{name}' does not exist")
        count += len(group.members)
        if some := [each for each in group.members if matches(each, patterns)]:
            found[name] = some
    if not found:
        where = f"group '{ids[0]}'" if len(ids) == 1 else f"{len(ids)} groups"
        raise CommandRefused(
            f"none of the {count} members of {where} matches: "
            "`groupkeeper groups describe --members` shows them"
        )
    return found


def matches(member: "DescribedMember", patterns: Mapping[str, Sequence[str]]) -> bool:
    """Return whether each attribute with patterns matches at least one of its patterns."""
    return all(
        any(fnmatchcase(_attribute(member, name), each) for each in some)
        for name, some in patterns.items()
    )


def _attribute(member: "DescribedMember", name: str) -> str:
    """Return an attribute; Kafka writes hosts as "/10.0.0.7", and a missing id as ""."""
    value: str = getattr(member, name) or ""
    return value.removeprefix("/") if name == "host" else value


async def _remove(
    client: "Client", group_id: str, members: "Sequence[DescribedMember]", reason: str | None
) -> list[str]:
    """Remove members, and return the outcome for each."""
    from groupkeeper.client import CallFailed
    from groupkeeper.client.groups import remove_members
    from groupkeeper.protocol.errors import ErrorCode

    told = REASON if reason is None else f"{REASON}: {reason}"
    try:
        results = await remove_members(client, group_id, members, told)
    except CallFailed as failure:
        if failure.error is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        if reason is not None:
            print("groupkeeper: warning: this broker does not accept reasons", file=sys.stderr)
        results = await remove_members(client, group_id, members, None)
    return [_status(each) for each in results]


def _status(error: "ErrorCode") -> str:
    from groupkeeper.protocol.errors import ErrorCode

    if error is ErrorCode.UNKNOWN_MEMBER_ID:
        return "Error: it is no longer a member"
    if error is ErrorCode.FENCED_INSTANCE_ID:
        return "Error: another member has its instance id now; check again"
    return f"Error: {error.name}" if error else REMOVED


def _row(group: str, member: "DescribedMember", status: str) -> TableRow:
    return {
        "group": group,
        "consumer_id": member.member_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "status": status,
    }
