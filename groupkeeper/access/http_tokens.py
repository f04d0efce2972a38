"""Bearer tokens of the HTTP port, and the file that has their hashes.

A line of the file is `NAME ROLE sha256:HEX`; empty lines, and those that begin with `#`, say
nothing. The hash is plain SHA-256. A slow, salted one protects passwords, which people choose and
guesses find; a token has 256 random bits, so no guess finds it however fast the hash is, and two
tokens never have the same one. A slow hash would only cost the server time for each request.

Imported where there are tokens, as `hashlib` takes 4 MiB.
"""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from typing import Final, NamedTuple

READ, WRITE = "read", "write"
ROLES: Final = (READ, WRITE)
"""`write` includes `read`."""
TOKENS_MOST: Final = 200
"""Tokens in a file: each request is compared with all of them, in 0.1 ms."""
FILE_BYTES: Final = 64 * 1024
RANDOM_BYTES: Final = 32
BEGIN: Final = "gk_"
"""What tokens begin with, so that a search for secrets finds them."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_LINE: Final = re.compile(rf"({NAME.pattern})\s+(\S+)\s+sha256:([0-9a-f]{{64}})", re.ASCII)


class HttpToken(NamedTuple):
    """A line of the file."""

    name: str
    role: str
    digest: bytes
    """SHA-256 of the token."""

    def __str__(self) -> str:
        return f"{self.name} {self.role} sha256:{self.digest.hex()}"


class TokenFileError(Exception):
    """The file cannot be used. One line, without the file's name."""


class TokenFile(NamedTuple):
    """A file that was read."""

    tokens: Sequence[HttpToken]
    text: str
    others_read: bool
    """Every user of the machine may read it."""


def new_token() -> str:
    """Return a new token, of 256 random bits."""
    return BEGIN + token_urlsafe(RANDOM_BYTES)


def digest_of(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def find_token(tokens: Iterable[HttpToken], given: str) -> HttpToken | None:
    """Return whose token this is. The time it takes does not depend on which one fits."""
    digest, found = digest_of(given), None
    for each in tokens:
        if compare_digest(each.digest, digest):
            found = each
    return found


def read_token_file(path: Path) -> TokenFile:
    """Read a file, on a thread. Raises TokenFileError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(FILE_BYTES + 1)
    except OSError as problem:
        raise TokenFileError(problem.strerror or str(problem)) from None
    if len(data) > FILE_BYTES:
        raise TokenFileError(f"it has more than {FILE_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TokenFileError("it is not UTF-8") from None
    return TokenFile(parse_tokens(text), text, bool(mode & stat.S_IROTH))


def parse_tokens(text: str) -> list[HttpToken]:
    """Return the tokens of a file's text. Raises TokenFileError, which quotes nothing of it: it may
    be a file of tokens themselves.
    """
    found: dict[str, HttpToken] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            raise TokenFileError(f"line {number} is not NAME ROLE sha256:HEX")
        if parts[2] not in ROLES:
            raise TokenFileError(f"line {number} has none of the roles {', '.join(ROLES)}")
        if parts[1] in found:
            raise TokenFileError(f"line {number} has the name of an earlier line, {parts[1]}")
        found[parts[1]] = HttpToken(parts[1], parts[2], bytes.fromhex(parts[3]))
    if len(found) > TOKENS_MOST:
        raise TokenFileError(f"it has {len(found)} tokens: at most {TOKENS_MOST} are taken")
    return list(found.values())
