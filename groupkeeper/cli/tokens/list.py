"""`groupkeeper tokens list`."""

from pathlib import Path

import click

from groupkeeper.cli.options import json_rows
from groupkeeper.cli.tables import show
from groupkeeper.cli.tokens.file import FILE, read


@click.command(name="list")
@FILE
@json_rows()
def list(path: Path, as_json: bool) -> int:  # noqa: A001  # the name of the command
    """List tokens by name, with their roles.

    \b
      groupkeeper tokens list --file /etc/groupkeeper/tokens
    """
    tokens = sorted(read(path).tokens)
    show([{"token": each.name, "role": each.role} for each in tokens], as_json=as_json)
    return 0
