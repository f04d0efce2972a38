"""`groupkeeper groups`: lists, describes and deletes consumer groups of any Kafka cluster."""

import click

from groupkeeper.cli.app import lazy_group

PLACES = {
    "list": "groups.list",
    "describe": "groups.describe",
    "delete": "groups.delete",
    "remove-members": "groups.remove_members",
    "policy": "groups.policy",
}


@click.group(cls=lazy_group(PLACES), no_args_is_help=True)
def groups() -> None:
    """List, describe, configure and delete consumer groups.

    Works against any Kafka cluster, with the options, columns and refusals of
    kafka-consumer-groups, whose actions are commands here: `--describe --group g` is
    `describe --group g`. In addition: lag in seconds, removing members, JSON.
    To reset or delete offsets, use kafka-consumer-groups.sh.

    \b
    Which groups exist, and how far do they lag behind?
      groupkeeper groups list --state
      groupkeeper groups describe --all-groups --lag-seconds
    \b
    Remove a static member whose machine is gone:
      groupkeeper groups remove-members --group billing --instance-id 'pod-9*' --execute
    \b
    Keep the partitions of lost members for a minute:
      groupkeeper groups policy --group billing --set classic.scheduled.rebalance.max.delay.ms=60000

    Remarks go to standard error.
    """
