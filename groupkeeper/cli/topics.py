"""`groupkeeper topics`: topics of any Kafka cluster, listed, described, created and deleted."""

import click

from groupkeeper.cli.lazy import lazy_group

PLACES = {
    "list": "topics_show",
    "describe": "topics_show",
    "create": "topics_change",
    "delete": "topics_change",
}


@click.group(cls=lazy_group(PLACES), no_args_is_help=True)
def topics() -> None:
    """List, describe, create and delete topics.

    Works against any Kafka cluster, with the options and lines of kafka-topics, whose actions are
    commands here.

    \b
      groupkeeper topics create --topic orders --partitions 6 --config retention.ms=86400000
      groupkeeper topics describe --topic 'order.*'
      groupkeeper topics list --exclude-internal

    Exit codes: 0 done, 1 refused or failed, 2 wrong call.
    """
