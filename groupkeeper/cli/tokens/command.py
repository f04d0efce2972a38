"""`groupkeeper tokens`: adds, removes and lists tokens of the HTTP port."""

import click

from groupkeeper.cli.app import lazy_group

PLACES = {"add": "tokens.add", "remove": "tokens.remove", "list": "tokens.list"}


@click.group(cls=lazy_group(PLACES), no_args_is_help=True)
def tokens() -> None:
    """Add, remove and list tokens for the HTTP port.

    They are in the file of the setting http.tokens.file, as hashes. A server that runs takes a
    changed file within 10 seconds.

    \b
    One for Prometheus, and one for people who change groups:
      groupkeeper tokens add prometheus --role read --file /etc/groupkeeper/tokens
      groupkeeper tokens add ops --role write --file /etc/groupkeeper/tokens
    \b
    Who has one, and who not any more:
      groupkeeper tokens list --file /etc/groupkeeper/tokens
      groupkeeper tokens remove ops --file /etc/groupkeeper/tokens
    """
