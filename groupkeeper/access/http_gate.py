"""Lets requests into the HTTP port that bring a token of the file, and keeps that file up to date.

The page itself has no data and is open: a browser loads it before a person can enter a token.

Source: RFC 6750 (bearer tokens).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

from groupkeeper.access.audit import FAILED, SUCCEEDED, LoginAudit
from groupkeeper.access.http_tokens import (
    WRITE,
    HttpToken,
    TokenFileError,
    find_token,
    read_token_file,
)
from groupkeeper.access.watched_files import WatchedFiles
from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest, error_answer
from groupkeeper.observe.logs import Logger
from groupkeeper.settings.listeners import HTTP
from groupkeeper.settings.table import SettingsError

SETTING: Final = "http.tokens.file"
MECHANISM: Final = "token"
NO_MECHANISM: Final = "none"
"""Of requests without a token."""
PRINCIPAL: Final = "Token"
"""Type of the principals: none of Kafka's, so that no user is taken for one."""
PAGE: Final = "/page/"
"""What the paths of the page's files begin with."""

_CHALLENGE: Final = 'Bearer realm="groupkeeper"'
_WITHOUT: Final = error_answer(
    HTTPStatus.UNAUTHORIZED,
    "send a token, as 'Authorization: Bearer TOKEN': `groupkeeper tokens add` makes one",
    {"WWW-Authenticate": _CHALLENGE},
)
_UNKNOWN: Final = error_answer(
    HTTPStatus.UNAUTHORIZED,
    f"the token is not in {SETTING}: `groupkeeper tokens add` makes one that is",
    {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
)

_log = Logger("access")


class HttpGate:
    """The tokens of one server, current for the requests that come next."""

    def __init__(self, file: Path, open_paths: Collection[str], audit: LoginAudit) -> None:
        """Read the file, on a thread. Raises SettingsError."""
        self._file = file
        self._open = frozenset(open_paths)
        self._audit = audit
        self._tokens: Sequence[HttpToken] = ()
        self._warned = False
        self._files = WatchedFiles([file])
        try:
            self._load()
        except TokenFileError as problem:
            raise SettingsError(
                f"{SETTING} = {file}: {problem}; `groupkeeper tokens add NAME --file {file}` "
                "makes such a file"
            ) from None
        for mechanism, outcome in (
            (MECHANISM, SUCCEEDED),
            (MECHANISM, FAILED),
            (NO_MECHANISM, FAILED),
        ):
            audit.count(HTTP, mechanism, outcome, 0)  # series exist from the start

    def admit(self, request: HttpRequest) -> HttpRequest | HttpAnswer:
        """Return the request with the name of its token, or the answer that refuses it."""
        if self._is_open(request.path):
            return request
        given, host = _bearer_in(request), f"/{request.remote}"
        if given is None:
            self._audit.failed(HTTP, NO_MECHANISM, "", host, "a request without a token")
            return _WITHOUT
        token = find_token(self._tokens, given)
        if token is None:
            self._audit.failed(HTTP, MECHANISM, "", host, f"a token that is not in {SETTING}")
            return _UNKNOWN
        principal = f"{PRINCIPAL}:{token.name}"
        self._audit.came_again(HTTP, MECHANISM, principal, host)
        return replace(request, principal=principal, may_write=token.role == WRITE)

    def admits_still(self, request: HttpRequest) -> bool:
        """Return whether the token of a request that was admitted is still in the file."""
        if self._is_open(request.path):
            return True
        given = _bearer_in(request)
        return given is not None and find_token(self._tokens, given) is not None

    def _is_open(self, path: str) -> bool:
        return path in self._open or path == "/" or path.startswith(PAGE)

    def refresh(self) -> None:
        """Load the file if it has changed; keep the tokens if it cannot be used. On a thread."""
        if not self._files.have_changed():
            return
        try:
            self._load()
        except TokenFileError as problem:
            _log.error(
                "changed tokens are not used: the old ones stay",
                file=str(self._file),
                error=str(problem),
            )
        else:
            _log.info("changed tokens are used", file=str(self._file), count=len(self._tokens))

    def _load(self) -> None:
        found = read_token_file(self._file)
        self._tokens = found.tokens
        if found.others_read and not self._warned:
            _log.warning(
                "tokens of the HTTP port: every user of the machine may read their hashes; "
                "take the right away (chmod o-r)",
                file=str(self._file),
            )
        self._warned = found.others_read


def _bearer_in(request: HttpRequest) -> str | None:
    """Return the token of a request; None without one."""
    scheme, _, given = request.headers.get("authorization", "").strip().partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None
