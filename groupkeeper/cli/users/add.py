"""`groupkeeper users add`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupkeeper.access.users import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    NAME_LENGTH,
    SALT_BYTES,
    TYPE_OF,
    credential,
    salted_password,
    user_key,
)
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.users.place import (
    MECHANISMS,
    UsersPlace,
    chosen,
    mechanism_option,
    place_options,
)

if TYPE_CHECKING:
    from groupkeeper.client import Client

PASSWORD_BYTES = 1024


@click.command()
@click.argument("name")
@mechanism_option("Mechanism to log in with, may be repeated; default SCRAM-SHA-512.")
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="Rounds of PBKDF2: more make guessing slower, and logins of clients.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE|-",
    help="File whose first line is the password, or - for standard input.",
)
@place_options
def add(
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
    place: UsersPlace,
) -> int:
    """Add a user, or give it another password.

    The password is asked for on a terminal; else it is the first line of standard input, or of the
    file. It does not leave this command: a server keeps what it needs to check it.

    \b
      groupkeeper users add admin --data-dir groupkeeper-data
      groupkeeper users add billing --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512
      groupkeeper users add billing --password-file /run/secrets/billing
    """
    if not name or len(name) > NAME_LENGTH:
        raise click.BadParameter(f"give a name of 1 to {NAME_LENGTH} characters")
    password = _password(name, password_file)
    wanted = {}
    for each in chosen(mechanisms, MECHANISMS[1:]):
        salt = os.urandom(SALT_BYTES)
        wanted[each] = salt, salted_password(each, password, salt, iterations)
    if place.data_dir is not None:
        from groupkeeper.server.offline_catalog import change_users

        with place.catalog(new=True) as catalog:
            entries = [
                (user_key(name, each), credential(each, salted, salt, iterations).entry)
                for each, (salt, salted) in wanted.items()
            ]
            change_users(catalog, entries)
        return 0

    async def work(client: "Client") -> int:
        from groupkeeper.client.users import set_credential

        for each, (salt, salted) in wanted.items():
            kind = TYPE_OF[each]
            failure = await set_credential(client, name, kind, iterations, salt, salted)
            if failure is not None:
                raise CommandRefused(f"user '{name}' was not added for {each}: {failure}")
        return 0

    return place.cluster.run(work)


def _password(name: str, file: Path | None) -> str:
    """Read the password from the file, a prompt or standard input."""
    if file is None and sys.stdin.isatty():
        password: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        password = _first_line(file)
    if not password or len(password.encode()) > PASSWORD_BYTES or "\0" in password:
        raise click.ClickException(
            f"the password has 1 to {PASSWORD_BYTES} bytes without NUL: give it on standard input "
            "or in --password-file, in one line"
        )
    return password


def _first_line(file: Path | None) -> str:
    is_input = file is None or str(file) == "-"
    try:
        if is_input:
            data = sys.stdin.readline(2 * PASSWORD_BYTES)
        else:
            assert file is not None
            with file.open(encoding="utf-8") as opened:
                data = opened.readline(2 * PASSWORD_BYTES)
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise click.ClickException(f"the password cannot be read: {why}") from None
    return data.rstrip("\r\n")
