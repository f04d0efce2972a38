"""The public keys of an issuer of tokens: a JSON Web Key Set, from a file or a URL.

Read on a thread of its own, as a server of keys may hang, and kept. Old keys stay in use while
newer ones cannot be read. One request is under way at a time, and failures are retried ever more
rarely, however many logins there are.

Source: RFC 7517; Kafka's `RefreshingHttpsJwks`, `JwksFileVerificationKeyResolver`.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from groupkeeper.access.sasl import SaslFailed
from groupkeeper.backoff import Backoff
from groupkeeper.bounded_url import read_url
from groupkeeper.observe.logs import Logger

SCHEMES: Final = ("file", "http", "https")
FETCH_S: Final = 10.0
"""How long a set of keys may take to arrive."""
KEYS_BYTES: Final = 1024 * 1024
KEYS_MOST: Final = 100
"""Longest set, in bytes and keys."""
SOON_S: Final = 10.0
"""Minimum time between two requests because of tokens that name an unknown key."""

JsonWebKey = Any
"""A key of joserfc."""
_log = Logger("access")


def read_keys(url: str) -> list[JsonWebKey]:
    """Read and parse a set of keys, blocking. Raises OSError, ValueError and JoseError. Symmetric
    keys are left out: what they sign could be made by whoever has the set.
    """
    import json

    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    found = json.loads(_read(url))
    rows = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise ValueError("no JSON Web Key Set: it has no list `keys`")  # input
    keys: list[JsonWebKey] = []
    for row in rows[:KEYS_MOST]:
        kind = row.get("kty") if isinstance(row, dict) else None
        try:
            if kind == "RSA":
                keys.append(RSAKey.import_key(row))
            elif kind == "EC":
                keys.append(ECKey.import_key(row))
        except (JoseError, ValueError):  # of a kind that is not known yet
            continue
    if not keys:
        raise ValueError("it has no RSA or EC key")
    return keys


def _read(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            data = file.read(KEYS_BYTES + 1)
    else:
        data = read_url(url, KEYS_BYTES, FETCH_S)
    if len(data) > KEYS_BYTES:
        raise ValueError(f"longer than {KEYS_BYTES} bytes")
    return data


def on_daemon_thread(job: Callable[[], Any]) -> "asyncio.Future[Any]":
    """Run a job on a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def finish(what: Callable[[Any], None], value: object) -> None:
        if not future.done():
            what(value)

    def run() -> None:
        try:
            what, value = future.set_result, context.run(job)
        except BaseException as error:  # noqa: BLE001  # whoever waits gets it
            what, value = future.set_exception, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, what, value)

    threading.Thread(target=run, name="jwks", daemon=True).start()
    return future


class Jwks:
    """The keys of one issuer."""

    def __init__(
        self,
        url: str,
        refresh_s: float,
        retry_s: tuple[float, float],
        seconds: Callable[[], float],
        read: Callable[[str], Sequence[JsonWebKey]] = read_keys,
    ) -> None:
        """`retry_s`: first and longest pause after a failure."""
        self._url = url
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        """Without a password."""
        self._refresh_s = refresh_s
        self._backoff = Backoff(*retry_s)
        self._seconds = seconds
        self._read = read
        self._keys: Sequence[JsonWebKey] = ()
        self._due = self._soon = seconds()
        self._reading: asyncio.Future[None] | None = None

    async def keys(self) -> Sequence[JsonWebKey]:
        """Return the keys; wait for them only if there are none yet. Raises SaslFailed."""
        if self._reading is None and self._seconds() >= self._due:
            self._reading = asyncio.ensure_future(self._refresh())
        if not self._keys and self._reading is not None:
            await asyncio.shield(self._reading)
        if not self._keys:
            raise SaslFailed("the keys of the issuer cannot be read")
        return self._keys

    def unknown(self) -> None:
        """Note that a token names an unknown key: read the set again soon, as it may be new."""
        now = self._seconds()
        if now >= self._soon:
            self._soon = now + SOON_S
            self._due = min(self._due, now)

    async def _refresh(self) -> None:
        try:
            self._keys = await on_daemon_thread(lambda: self._read(self._url))
            self._backoff.reset()
            self._due = self._seconds() + self._refresh_s
        except Exception as error:  # noqa: BLE001  # of urllib, json or joserfc
            self._due = self._seconds() + self._backoff.failed()
            _log.warning("keys of tokens cannot be read", url=self._shown, error=str(error))
        finally:
            self._soon = self._seconds() + SOON_S
            self._reading = None
