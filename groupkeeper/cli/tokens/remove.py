"""`groupkeeper tokens remove`."""

from pathlib import Path

import click

from groupkeeper.access.http_tokens import TokenFile
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.tokens.file import FILE, change, named


@click.command()
@click.argument("name")
@FILE
def remove(name: str, path: Path) -> int:
    """Remove a token: within 10 seconds a server that runs does not take it any more.

    \b
      groupkeeper tokens remove ops --file /etc/groupkeeper/tokens
    """

    def edit(found: TokenFile) -> str:
        if named(found, name) is None:
            known = ", ".join(each.name for each in found.tokens) or "none"
            raise CommandRefused(f"{path} has no token '{name}': it has {known}")
        lines = found.text.splitlines(keepends=True)
        return "".join(each for each in lines if each.split()[:1] != [name])

    change(path, edit)
    return 0
