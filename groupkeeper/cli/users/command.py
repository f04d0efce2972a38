"""`groupkeeper users`: adds, removes and lists users that log in with SCRAM."""

import click

from groupkeeper.cli.app import lazy_group

PLACES = {"add": "users.add", "remove": "users.remove", "list": "users.list"}


@click.group(cls=lazy_group(PLACES), no_args_is_help=True)
def users() -> None:
    """Add, remove and list users that can log in.

    They log in with SCRAM, or with PLAIN and the same password, to this server or any Kafka
    cluster; kafka-configs --entity-type users does the same. With --data-dir, on a data directory
    while no server runs on it: that is how the first user is made. Passwords are never arguments,
    which other users of the machine could see.

    \b
    The first administrator, then others through the server:
      groupkeeper users add admin --data-dir groupkeeper-data
      groupkeeper users add billing --command-config admin.properties
    \b
    Who can log in, and who not any more:
      groupkeeper users list --command-config admin.properties
      groupkeeper users remove billing --command-config admin.properties
    """
