"""The options that select the groups of a command, and the resulting group names."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.options import Function, on_command_line, together, variable

if TYPE_CHECKING:
    from groupkeeper.client import Client

CONSUMER_PROTOCOLS = ("", "consumer")
"""Protocol types of groups with consumer offsets; empty for groups that never had members."""
CHANGING: Final = ("delete", "policy", "remove-members")
"""Commands that take groups from the command line only, never from the variable."""
NAMED: Final = 20
"""Maximum number of unserved partitions to list."""


@dataclass(slots=True, frozen=True)
class GroupSelection:
    """Group names as given; without any, all consumer groups, or those that match the pattern."""

    names: Sequence[str]
    pattern: re.Pattern[str] | None

    async def ids(self, client: "Client") -> tuple[list[str], int]:
        """Return the names in order, and the exit code so far. Queries the cluster only if no names
        are given. Raises CommandRefused if no group matches the pattern.
        """
        if self.names:
            return sorted(set(self.names)), 0
        from groupkeeper.client.groups import list_groups

        listed = await list_groups(client)
        exit_code = await tell_unlisted(client)
        found = [each.group_id for each in listed if each.protocol_type in CONSUMER_PROTOCOLS]
        if self.pattern is None:
            if not (found or exit_code):
                tell_none(is_any=bool(listed))
            return found, exit_code
        matching = [each for each in found if self.pattern.fullmatch(each)]
        if not matching:
            raise CommandRefused(
                f"none of {len(found)} consumer groups matches '{self.pattern.pattern}': "
                "`groupkeeper groups list` shows them"
            )
        return matching, exit_code


def tell_none(*, is_any: bool) -> None:
    """Print that no group is shown, on standard error: standard output has rows alone, as that of
    Kafka's tool. `is_any`: there may be groups that were not asked for.
    """
    line = (
        "no group matches: `groupkeeper groups list --protocol` shows all"
        if is_any
        else ("the cluster has no groups")
    )
    print(f"groupkeeper: {line}", file=sys.stderr)


async def tell_unlisted(client: "Client") -> int:
    """Print which partitions of `__consumer_offsets` have groups missing from every list. Returns
    FAILED if there are any, else 0.
    """
    from groupkeeper.client.groups import GROUP_TOPIC, unserved_partitions
    from groupkeeper.protocol.placement import STATUS_HINT

    missing, count = await unserved_partitions(client)
    if not missing:
        return 0
    partitions = "partition" if len(missing) == 1 else "partitions"
    told = ", ".join(map(str, missing[:NAMED])) + (", ..." if missing[NAMED:] else "")
    print(
        f"groupkeeper: the groups of {partitions} {told} of {GROUP_TOPIC} are missing: no node "
        f"serves {len(missing)} of its {count} partitions; {STATUS_HINT}",
        file=sys.stderr,
    )
    return FAILED


def group_options(function: Function) -> Function:
    """Add --group, --all-groups and --group-regex, as the parameter `selection`."""

    @wraps(function)
    def collected(
        *arguments: Any,
        group: tuple[str, ...],
        all_groups: bool,
        group_regex: str | None,
        **more: Any,
    ) -> Any:
        others = all_groups + (group_regex is not None)
        command = click.get_current_context().command.name
        if (others or command in CHANGING) and not on_command_line("group"):
            group = ()
        if bool(group) + others != 1:
            raise click.UsageError("Select groups with one of --group, --all-groups, --group-regex")
        selection = GroupSelection(group, _compiled(group_regex))
        return function(*arguments, selection=selection, **more)

    found: Function = together(*_OPTIONS)(collected)
    return found


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise click.BadParameter(f"{error} in '{pattern}'", param_hint="--group-regex") from error


_OPTIONS = (
    click.option(
        "--group",
        multiple=True,
        envvar=variable("GROUP"),
        metavar="ID",
        help="A group; may be repeated.",
    ),
    click.option("--all-groups", is_flag=True, help="All groups of consumers."),
    click.option(
        "--group-regex", metavar="REGEX", help="Groups whose whole name matches a Python regex."
    ),
)
