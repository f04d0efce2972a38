"""`groupkeeper groups`: consumer groups of any Kafka cluster, listed, described and changed."""

import click

from groupkeeper.cli.lazy import lazy_group

PLACES = {
    "list": "groups_list",
    "describe": "groups_describe",
    "delete": "groups_delete",
    "delete-offsets": "groups_delete",
    "reset-offsets": "groups_reset",
    "remove-members": "groups_remove",
}


@click.group(cls=lazy_group(PLACES), no_args_is_help=True)
def groups() -> None:
    """List, describe, reset and delete consumer groups, and remove members.

    Works against any Kafka cluster, with the options, columns and refusals of
    kafka-consumer-groups, whose actions are commands here: `--describe --group g` is
    `describe --group g`. In addition: lag in seconds, removing members, JSON.

    \b
    Which groups are there, and who lags behind?
      groupkeeper groups list --state
      groupkeeper groups describe --all-groups --lag-seconds
    \b
    Read a topic once more from yesterday on: look first, then do it.
      groupkeeper groups reset-offsets --group billing --topic orders --by-duration P1D
      groupkeeper groups reset-offsets --group billing --topic orders --by-duration P1D --execute
    \b
    Remove a static member whose machine is gone:
      groupkeeper groups remove-members --group billing --instance-id 'pod-9*' --execute

    Exit codes: 0 done, 1 refused or failed, 2 wrong call. Remarks go to standard error.
    """
