"""Tokens for logins with OAUTHBEARER, from an issuer's endpoint or from a file.

The endpoint gets the id and the secret of a client, and answers with a token, which is kept for
most of its lifetime; a file is read for each login. Secrets and tokens are in no text of this
module, errors and reprs included.

Source: RFC 6749 section 4.4, RFC 6750, KIP-768, KIP-1139; Kafka's `ClientCredentialsJwtRetriever`,
`FileJwtRetriever` and `ExpiringCredentialRefreshingLogin`.
"""

import asyncio
import json
import re
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from groupkeeper.backoff import Backoff
from groupkeeper.bounded_url import read_url

if TYPE_CHECKING:
    from ssl import SSLContext

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
CALLBACK: Final = "sasl.login.callback.handler.class"
CLASSES: Final = {
    CALLBACK: ("OAuthBearerLoginCallbackHandler",),
    RETRIEVER: ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
}
"""Kafka's classes that do what this module does; others are refused."""
FETCH_S: Final = 10.0
"""How long an endpoint may take: Kafka's `sasl.login.*.timeout.ms` have no default."""
ANSWER_BYTES: Final = 1024 * 1024
"""Longest answer of an endpoint, and longest file."""
RENEW_AT: Final = 0.8
"""Part of its lifetime after which a token is replaced: `sasl.login.refresh.window.factor`."""
PAUSE_FIRST_S: Final = 0.1
PAUSE_MOST_S: Final = 10.0
"""First and longest pause after a failure, as `sasl.login.retry.backoff.ms` and `.max.ms`."""
_TOKEN: Final = re.compile(r"[-_~+/.A-Za-z0-9]+=*")
_ERROR: Final = re.compile(r"[\w.-]{1,60}", re.ASCII)
"""Error codes of endpoints: what else they say may quote the request."""


class NoToken(KafkaError):  # type: ignore[misc]  # aiokafka is not typed
    """There is no token to log in with. The text is one line that says why."""


class Token(NamedTuple):
    """A token, and how long it is valid; None if that is unknown."""

    text: str
    lifetime_s: float | None

    def __repr__(self) -> str:
        return f"Token(lifetime_s={self.lifetime_s})"


class TokenSource:
    """The tokens of one client. `problem` is why the last try failed; empty after a success."""

    def __init__(
        self,
        fetch: Callable[[], Token],
        *,
        is_kept: bool = True,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetch` is called on a thread, and raises NoToken. With `is_kept` a token is used until
        most of its lifetime is over, else only while no other one can be had.
        """
        self.problem = ""
        self._fetch, self._is_kept, self._seconds = fetch, is_kept, seconds
        self._lock = asyncio.Lock()
        self._text = ""
        self._renew_s = self._end_s = self._again_s = seconds()
        self._backoff = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S)

    async def token(self) -> str:
        """Return a token that is valid. Implements aiokafka's `AbstractTokenProvider`. Raises
        NoToken, without a request if the last one failed a moment ago.
        """
        async with self._lock:
            now = self._seconds()
            if now >= self._renew_s and now >= self._again_s:
                await self._renew()
            if self._seconds() >= self._end_s and self.problem:
                raise NoToken(self.problem)
            return self._text

    async def _renew(self) -> None:
        """Fetch a token; keep the old one if that fails."""
        try:
            found = await asyncio.to_thread(self._fetch)
        except NoToken as failure:
            self.problem = failure.args[0]
            self._again_s = self._seconds() + self._backoff.failed()
            return
        self.problem = ""
        self._backoff.reset()
        now, lifetime = self._seconds(), found.lifetime_s or 0.0
        self._text, self._end_s = found.text, now + lifetime
        self._renew_s = now + RENEW_AT * lifetime if self._is_kept else now


AbstractTokenProvider.register(TokenSource)


def token_source(
    given: Mapping[str, str], options: Mapping[str, str], context: "SSLContext | None"
) -> TokenSource:
    """Return the source that properties of a client name. `options` are those of
    `sasl.jaas.config`, `context` is for the endpoint. Raises ValueError with one line.
    """
    for key, names in CLASSES.items():
        if key in given and given[key].strip().rpartition(".")[2] not in names:
            raise ValueError(f"{key} is not supported but for {', '.join(names)}")
    url = given.get(ENDPOINT, "").strip()
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        path = Path(unquote(parts.path))
        return TokenSource(lambda: token_in(path), is_kept=False)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"OAUTHBEARER needs {ENDPOINT}: give https://..., or file:///path")
    client_id = given.get(CLIENT_ID) or options.get("clientId", "")
    secret = given.get(CLIENT_SECRET) or options.get("clientSecret", "")
    if not client_id or not secret:
        raise ValueError(
            f"OAUTHBEARER needs {CLIENT_ID} and {CLIENT_SECRET}, or clientId and clientSecret in "
            "sasl.jaas.config"
        )
    if given.get(URLENCODE, "false").strip().lower() == "true":
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    login = b64encode(f"{client_id}:{secret}".encode()).decode()
    scope = given.get(SCOPE) or options.get("scope", "")
    return TokenSource(lambda: token_of(url, login, scope, context))


# -- a file ----------------------------------------------------------------------------------------


def token_in(path: Path) -> Token:
    """Read a file that has a token. Raises NoToken."""
    try:
        with path.open("rb") as file:
            data = file.read(ANSWER_BYTES + 1)
    except OSError as problem:
        raise NoToken(f"{path}: {problem.strerror or problem}") from None
    return _token(data.decode("latin-1").strip(), None, str(path))


# -- an endpoint -----------------------------------------------------------------------------------


def token_of(url: str, login: str, scope: str, context: "SSLContext | None") -> Token:
    """Ask an endpoint for a token. `login` is that of Basic authentication. Raises NoToken."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    asked = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {login}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    try:
        request = Request(url, urlencode(asked).encode(), headers)  # noqa: S310  # as checked above
        data = read_url(request, ANSWER_BYTES, FETCH_S, context)
    except HTTPError as refused:
        with refused:
            raise NoToken(f"{where} answers {refused.code}{_error_in(refused)}") from None
    except URLError as problem:
        raise NoToken(f"{where}: {_words(problem.reason)}") from None
    except (OSError, HTTPException, ValueError) as problem:
        raise NoToken(f"{where}: {_words(problem)}") from None
    answer = _json(data)
    return _token(answer.get("access_token"), _seconds(answer.get("expires_in")), where)


def _error_in(refused: Any) -> str:  # Any: HTTPError, imported late
    """Return the error code of a refusal in parentheses; empty without one."""
    try:
        code = _json(refused.read(ANSWER_BYTES)).get("error")
    except OSError:
        return ""
    return f" ({code})" if isinstance(code, str) and _ERROR.fullmatch(code) else ""


def _words(problem: object) -> str:
    import ssl

    if isinstance(problem, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({problem.verify_message}): give that of its "
            "authority in ssl.truststore.location"
        )
    return str(getattr(problem, "strerror", None) or problem or type(problem).__name__)


def _json(data: bytes) -> dict[str, Any]:  # Any: JSON
    """Return an object; an empty one for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# -- tokens ----------------------------------------------------------------------------------------


def _token(text: object, lifetime_s: float | None, where: str) -> Token:
    """Return a token with its lifetime, by its claims if it is a JWT. Raises NoToken."""
    if not isinstance(text, str) or len(text) > ANSWER_BYTES or not _TOKEN.fullmatch(text):
        raise NoToken(f"{where} has no token")
    parts = text.split(".")
    claims = _json(_decoded(parts[1])) if len(parts) == len(("header", "payload", "sign")) else {}
    end = _seconds(claims.get("exp"))
    if end is not None:
        lifetime_s = end - time.time()
        if lifetime_s <= 0:
            raise NoToken(f"{where} has a token that has expired")
    return Token(text, lifetime_s)


def _seconds(value: object) -> float | None:
    """Return a number of seconds; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 2**43 else None


def _decoded(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
