"""TLS of listeners and of the HTTP port: made at the start, looked after while the server runs."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from groupkeeper.observe.http_server import Wrap
from groupkeeper.observe.metrics import Metrics
from groupkeeper.settings.listeners import HTTP
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.table import Settings

if TYPE_CHECKING:
    from groupkeeper.access.tls import ListenerTls

LOOK_S: Final = 5.0
"""Seconds between two looks at the files: changed ones are used within 10."""


_HTTP_PORT: Final = Listen(HTTP, protocol=SecurityProtocol.SASL_SSL)
"""Its clients are known by tokens, not by certificates."""


class ListenersTls:
    """The TLS of all listeners that have it, by name."""

    def __init__(self, listeners: Sequence[Listen], settings: Settings, metrics: Metrics) -> None:
        """Read the files. Raises SettingsError."""
        encrypted = [each for each in listeners if each.protocol.is_tls]
        if settings.http_tls:
            encrypted.append(_HTTP_PORT)
        self._metrics = metrics
        self.by_name = self._made(encrypted, settings) if encrypted else {}
        self._watching: asyncio.Task[None] | None = None
        if encrypted:
            metrics.certificates = self.expire_in_s

    def _made(self, listeners: Sequence[Listen], settings: Settings) -> "dict[str, ListenerTls]":
        from groupkeeper.access.audit import LoginAudit
        from groupkeeper.access.tls import ListenerTls

        audit = LoginAudit(self._metrics.authentications)
        return {each.name: ListenerTls(each, settings, audit) for each in listeners}

    def of_http(self) -> Wrap | None:
        """Return what adds TLS to connections of the HTTP port; None without."""
        tls = self.by_name.get(HTTP)
        if tls is None:
            return None
        from groupkeeper.connections.handshakes import Handshakes
        from groupkeeper.connections.tls_stream import TlsStream

        handshakes = Handshakes(self._metrics.connections)
        return lambda protocol: TlsStream(protocol, tls, handshakes)

    def expire_in_s(self) -> Mapping[str, float]:
        """Return the seconds until certificates expire, by listener."""
        now = time.time()
        return {name: each.expires_at - now for name, each in self.by_name.items()}

    def watch(self, every_s: float = LOOK_S) -> None:
        """Load changed files, until `stop`."""
        if self.by_name:
            from groupkeeper.access.watched_files import watch

            self._watching = asyncio.ensure_future(watch(self.refresh, every_s))

    def refresh(self) -> None:
        """Load changed files. On a thread."""
        for each in self.by_name.values():
            each.refresh()

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
