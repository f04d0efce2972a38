"""The HTTP port of a server, as commands reach it: options, TLS, a token, and JSON requests."""

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupkeeper.cli.options import parsed, shared, together
from groupkeeper.settings.options import Address, format_address

if TYPE_CHECKING:
    from ssl import SSLContext

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""Errors of `ask_json` if no server answers with a JSON object."""
TOKEN_BYTES: Final = 4096
"""Longest token."""
SCHEMES: Final = {"http": False, "https": True}
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
OFF: Final = "off"
_HUNG_UP: Final = (
    http.client.RemoteDisconnected,
    http.client.BadStatusLine,
    ConnectionResetError,
    BrokenPipeError,
)


class NoAccess(Exception):
    """A port lets nobody in like this. The text says why, `advice` which option to give."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.advice = advice

    @property
    def line(self) -> str:
        return f"{self}: {self.advice}"


@dataclass(slots=True, frozen=True)
class HttpTarget:
    """Address, TLS and token of a port to ask."""

    address: Address | None = None
    """None: not given."""
    tls: bool = False
    ca: Path | None = None
    """Certificates of its authority; None: those that the system trusts."""
    token_file: Path | None = None
    token: str = field(default="", repr=False)
    withheld: bool = False
    """A token was given, and is not sent to this address."""

    def guessed(self, address: Address) -> "HttpTarget":
        """Return a port at an address that a cluster has told. The token is not sent to it without
        TLS: any cluster could ask for it.
        """
        is_safe = self.tls or address[0] in LOOPBACK
        token = self.token if is_safe else ""
        return replace(self, address=address, token=token, withheld=token != self.token)

    @property
    def where(self) -> str:
        assert self.address is not None, "given or guessed"
        return format_address(self.address)


# -- options -------------------------------------------------------------------------------------


def _read_port(
    _ctx: click.Context, _param: click.Parameter, given: str | None
) -> tuple[Address, bool | None] | str | None:
    """Parse `[http[s]://]HOST:PORT`; None for the scheme if there is none."""
    if given is None or given == OFF:
        return given
    scheme, slashes, rest = given.partition("://")
    if not slashes:
        return parsed(given), None
    if scheme.lower() not in SCHEMES:
        raise click.BadParameter(f"{given!r} is neither http:// nor https://")
    return parsed(rest.removesuffix("/")), SCHEMES[scheme.lower()]


def _read_token(
    _ctx: click.Context, _param: click.Parameter, path: Path | None
) -> tuple[Path, str] | None:
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            token = file.readline(TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not UTF-8"
        raise click.BadParameter(f"{path}: {why}") from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise click.BadParameter(f"{path}: its first line is no token")
    return path, token


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


# Any: a function whose parameters are collected anew.
def http_options(
    default: str | None, text: str, *, off: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that adds the options of an HTTP port, as the parameter `http`: an
    `HttpTarget`, or None for the word `off`.
    """
    metavar = "[https://]HOST:PORT"
    options = together(
        shared(
            "--http",
            key="HTTP",
            callback=_read_port,
            default=default,
            metavar=f"{metavar}|{OFF}" if off else metavar,
            help=text,
        ),
        shared(
            "--http-token-file",
            key="HTTP_TOKEN_FILE",
            type=_FILE,
            callback=_read_token,
            metavar="FILE",
            help="File whose first line is a token for the HTTP port.",
        ),
        shared(
            "--http-ca",
            key="HTTP_CA",
            type=_FILE,
            metavar="FILE",
            help="Certificates (PEM) that sign that of the HTTP port, which then speaks TLS.",
        ),
    )

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def collected(
            *arguments: Any,
            http: tuple[Address, bool | None] | str | None,
            http_token_file: tuple[Path, str] | None,
            http_ca: Path | None,
            **more: Any,
        ) -> Any:
            port = None
            if not isinstance(http, str) or (http != OFF or not off):
                port = _port(http, http_token_file, http_ca)
            return function(*arguments, http=port, **more)

        return options(collected)

    return decorate


def _port(
    given: tuple[Address, bool | None] | str | None, token: tuple[Path, str] | None, ca: Path | None
) -> HttpTarget:
    if isinstance(given, str):
        raise click.BadParameter(f"'{given}' is not HOST:PORT", param_hint="--http")
    address, tls = (None, None) if given is None else given
    if tls is False and ca is not None:
        raise click.UsageError("--http-ca is for a port with TLS: give --http https://HOST:PORT")
    file, text = (None, "") if token is None else token
    return HttpTarget(address, ca is not None if tls is None else tls, ca, file, text)


# -- requests ------------------------------------------------------------------------------------


# Any: JSON.
def ask_json(
    port: HttpTarget, path: str, timeout_s: float, most_bytes: int
) -> tuple[int, dict[str, Any]]:
    """Return status and JSON object of an answer, read up to `most_bytes`. Raises `PROBLEMS`, and
    NoAccess.
    """
    connection = _connection(port, timeout_s)
    headers = {"Authorization": f"Bearer {port.token}"} if port.token else {}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = json.loads(answer.read(most_bytes))
    except PROBLEMS as problem:
        if (refused := _no_access(port, problem)) is not None:
            raise refused from None
        raise
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise _unauthorized(port)
    if answer.status == HTTPStatus.FORBIDDEN and "cluster" not in found:
        raise NoAccess(f"{port.where} refuses", str(found.get("error")))
    return answer.status, found


def _connection(port: HttpTarget, timeout_s: float) -> http.client.HTTPConnection:
    assert port.address is not None, "given or guessed"
    if port.tls:
        context = _context(port.ca)
        return http.client.HTTPSConnection(*port.address, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(*port.address, timeout=timeout_s)


@cache
def _context(ca: Path | None) -> "SSLContext":
    """Raises NoAccess."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError:  # ssl.SSLError, too
        raise NoAccess(f"{ca} has no certificates in PEM", "give others in --http-ca") from None


def hint(port: HttpTarget, problem: Exception) -> str:
    """Return what to add to the advice to give another `--http`: a port with TLS hangs up."""
    may_be_tls = not port.tls and isinstance(problem, _HUNG_UP)
    return f", as https://{port.where} if it speaks TLS" if may_be_tls else ""


def _no_access(port: HttpTarget, problem: Exception) -> NoAccess | None:
    """Return what is wrong with how a port was asked; None if that is not it."""
    if not port.tls:
        return None
    import ssl

    if isinstance(problem, ssl.SSLCertVerificationError):
        why = problem.verify_message or "for no known reason"
        if "mismatch" in why:
            return NoAccess(
                f"the certificate of {port.where} is for another name ({why})",
                "give one that it has in --http",
            )
        return NoAccess(
            f"the certificate of {port.where} is not trusted ({why})",
            "give that of its authority in --http-ca",
        )
    if isinstance(problem, ssl.SSLError):
        return NoAccess(
            f"{port.where} does not speak TLS ({problem.reason or problem})",
            f"if it should not, give --http http://{port.where}, and no --http-ca",
        )
    return None


def _unauthorized(port: HttpTarget) -> NoAccess:
    if port.withheld:
        why = f"{port.where} asks for a token, which is sent to no address that a cluster tells"
        return NoAccess(why, "name it with --http")
    if not port.token:
        return NoAccess(f"{port.where} asks for a token", "give one in --http-token-file")
    why = f"{port.where} does not take the token of {port.token_file}"
    return NoAccess(why, "give another one in --http-token-file")
