"""Counts logins, and writes lines about them: at most one a second for each address that succeeds,
and one for each that fails.

A line has the name that was tried, as the client spelled it: the writer of lines escapes it.
"""

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Final

from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import AUDIT_S, Seldom

AGAIN_S: Final = 3_600.0
"""Minimum interval between two lines about a token of the HTTP port from the same address: it comes
with each request."""
NAME_LENGTH: Final = 200
"""Longest name in a line."""

SUCCEEDED, REAUTHENTICATED, FAILED, EXPIRED = "succeeded", "reauthenticated", "failed", "expired"
OUTCOMES: Final = (SUCCEEDED, REAUTHENTICATED, FAILED, EXPIRED)

Authentications = Counter[tuple[str, ...]]
"""By listener, mechanism and outcome. The mechanism is `none` before a handshake, and for requests
over HTTP without a token; `other` if it is not enabled."""

_log = Logger("access")


class LoginAudit:
    """The logins of one server."""

    def __init__(self, counts: Authentications, seconds: Callable[[], float] = monotonic) -> None:
        self._counts = counts
        self._failed = Seldom(seconds, AUDIT_S)
        self._succeeded = Seldom(seconds, AUDIT_S)
        self._again = Seldom(seconds, AGAIN_S)

    def count(self, listener: str, mechanism: str, outcome: str, times: int = 1) -> None:
        self._counts[listener, mechanism, outcome] += times

    def succeeded(self, listener: str, mechanism: str, principal: str, host: str) -> None:
        """Count a login, and log it unless there was a line a moment ago."""
        self.count(listener, mechanism, SUCCEEDED)
        _tell_login(self._succeeded.due(host), listener, mechanism, principal, host)

    def came_again(self, listener: str, mechanism: str, principal: str, host: str) -> None:
        """Count a request that brings its own login, and log it unless there was a line about both
        within the hour.
        """
        self.count(listener, mechanism, SUCCEEDED)
        _tell_login(self._again.due((principal, host)), listener, mechanism, principal, host)

    def failed(self, listener: str, mechanism: str, name: str, host: str, why: str) -> None:
        """Count a login that failed, and log it unless there was a line a moment ago."""
        self.count(listener, mechanism, FAILED)
        if times := self._failed.due(host):
            about = {"listener": listener, "mechanism": mechanism, "times": times}
            principal = f"User:{name[:NAME_LENGTH]}" if name else None
            _log.warning("login failed", client=host, principal=principal, why=why, **about)


def _tell_login(times: int, listener: str, mechanism: str, principal: str, host: str) -> None:
    if times:
        about = {"listener": listener, "mechanism": mechanism, "times": times}
        _log.info("logged in", client=host, principal=principal, **about)
