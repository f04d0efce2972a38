"""The file of tokens, as the commands change it: whole, and one command at a time."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click

from groupkeeper.access.http_tokens import (
    HttpToken,
    TokenFile,
    TokenFileError,
    parse_tokens,
    read_token_file,
)
from groupkeeper.cli.app import CommandRefused

MODE: Final = 0o640
"""Of a new file, less the umask."""
FILE: Final = click.option(
    "--file",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file of tokens: that of the setting http.tokens.file.",
)


def read(path: Path, *, new: bool = False) -> TokenFile:
    """Read the file; `new`: which need not exist. Raises CommandRefused."""
    if new and not path.exists():
        return TokenFile((), "", others_read=False)
    try:
        return read_token_file(path)
    except TokenFileError as problem:
        raise CommandRefused(f"{path}: {problem}") from None


def named(found: TokenFile, name: str) -> HttpToken | None:
    """Return the token of a name, or None."""
    return next((each for each in found.tokens if each.name == name), None)


def change(path: Path, edit: Callable[[TokenFile], str], *, new: bool = False) -> None:
    """Put what `edit` makes of the file in its place, with its rights. Raises CommandRefused."""
    try:
        with _beside(path) as descriptor, os.fdopen(descriptor, "w", encoding="utf-8") as file:
            text = edit(read(path, new=new))
            parse_tokens(text)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except TokenFileError as problem:
        raise CommandRefused(f"{path}: {problem}") from None
    except OSError as problem:
        raise CommandRefused(f"{path}: {problem.strerror}") from None


@contextmanager
def _beside(path: Path) -> Iterator[int]:
    """Yield the descriptor of a new file, which takes the place of the old one afterwards. It also
    keeps other commands from changing it meanwhile.
    """
    path = path.resolve()
    new = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        raise CommandRefused(
            f"{new} exists: another command changes the tokens, or was killed; then remove it"
        ) from None
    try:
        with suppress(FileNotFoundError):
            old = path.stat()
            os.fchmod(descriptor, old.st_mode & 0o777)
            with suppress(PermissionError):  # only root may give a file away
                os.fchown(descriptor, old.st_uid, old.st_gid)
        yield descriptor
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
