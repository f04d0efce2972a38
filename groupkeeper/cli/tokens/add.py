"""`groupkeeper tokens add`."""

import sys
from pathlib import Path

import click

from groupkeeper.access.http_tokens import (
    NAME,
    READ,
    ROLES,
    HttpToken,
    TokenFile,
    digest_of,
    new_token,
)
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.tokens.file import FILE, change, named


@click.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default=READ,
    show_default=True,
    help="What it allows: to read all pages, or to change groups, too.",
)
@FILE
def add(name: str, role: str, path: Path) -> int:
    """Make a token, and print it on standard output: it is shown this once.

    The file has only its hash. NAME says in log lines and events whose token it is. To replace a
    token, add one of another name, and remove the old one when nobody uses it any more.

    \b
      groupkeeper tokens add prometheus --file /etc/groupkeeper/tokens > prometheus.token
      groupkeeper tokens add ops --role write --file /etc/groupkeeper/tokens
    """
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is no name: give up to 100 letters, digits, '.', '_' and '-'"
        )
    token = new_token()

    def edit(found: TokenFile) -> str:
        if named(found, name) is not None:
            raise CommandRefused(f"{path} has a token '{name}': remove it, or choose another name")
        text = found.text if found.text.endswith("\n") or not found.text else f"{found.text}\n"
        return f"{text}{HttpToken(name, role, digest_of(token))}\n"

    change(path, edit, new=True)
    print(token, flush=True)
    print(f"groupkeeper: keep this token: {path} has only its hash", file=sys.stderr)
    return 0
