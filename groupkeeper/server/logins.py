"""Makes the logins of the listeners with SASL, from settings and users. Imported with the first of
them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from groupkeeper.access.audit import OUTCOMES, Authentications, LoginAudit
from groupkeeper.access.login import Login, LoginFactory, Sasl
from groupkeeper.access.sasl import Begin, Conversation, SaslStep
from groupkeeper.access.threads import LoginThreads
from groupkeeper.access.users import SCRAM_SHA_256, SCRAM_SHA_512, Users
from groupkeeper.clock import Clock
from groupkeeper.settings.options import Listen, ServeOptions
from groupkeeper.settings.sasl_settings import (
    OAUTHBEARER,
    PLAIN,
    ListenerSasl,
    SaslSettingError,
    sasl_of,
    settings_of,
)
from groupkeeper.settings.table import Settings, SettingsError
from groupkeeper.topics.topics import Topics

_SCRAM: Final = "groupkeeper.access.scram"
_PACKAGES: Final = {SCRAM_SHA_256: "scramp", SCRAM_SHA_512: "scramp", OAUTHBEARER: "joserfc"}
"""Packages that mechanisms need: those of the extras `sasl` and `oauth`."""
_is_imported = False
"""Whether the module was imported completely: `sys.modules` has it before."""


class ScramLogin:
    """A conversation whose module, with scramp, is imported on a thread by the first login."""

    def __init__(self, mechanism: str, users: Users, threads: LoginThreads) -> None:
        self._mechanism = mechanism
        self._users = users
        self._threads = threads
        self._made: Conversation | None = None

    @property
    def tried(self) -> str:
        return "" if self._made is None else self._made.tried

    def step(self, token: bytes) -> SaslStep | Awaitable[SaslStep]:
        """Take a token. Raises SaslFailed."""
        if self._made is None and not _is_imported:
            return self._first(token)
        return self._conversation().step(token)

    async def _first(self, token: bytes) -> SaslStep:
        global _is_imported
        await self._threads(partial(import_module, _SCRAM))
        _is_imported = True
        found = self._conversation().step(token)
        return found if isinstance(found, SaslStep) else await found

    def _conversation(self) -> Conversation:
        if self._made is None:
            from groupkeeper.access.scram import ScramConversation

            self._made = ScramConversation(self._mechanism, self._users)
        return self._made


@dataclass(slots=True)
class Logins:
    """The logins of one server."""

    settings: Settings
    users: Users
    clock: Clock
    threads: LoginThreads
    counts: Authentications

    def by_listener(self, listeners: Iterable[Listen]) -> Mapping[str, LoginFactory]:
        """Return what makes the logins, by the names of the listeners that need one. Raises
        SaslSettingError.
        """
        audit = LoginAudit(self.counts)
        made: dict[str, LoginFactory] = {}
        for each in listeners:
            if each.protocol.has_sasl:
                sasl = self._sasl(each.name, sasl_of(self.settings, each.name), audit)
                made[each.name] = partial(Login, sasl)
        return made

    def _check_packages(self, mechanisms: Iterable[str]) -> None:
        """Raise SaslSettingError if a mechanism needs a package that is not installed."""
        for each in mechanisms:
            package = _PACKAGES.get(each)
            if package is not None and find_spec(package) is None:
                raise SaslSettingError(f"{each} needs the package {package}: pip install {package}")

    def _sasl(self, listener: str, given: ListenerSasl, audit: LoginAudit) -> Sasl:
        self._check_packages(given.mechanisms)
        for mechanism in given.mechanisms:
            for outcome in OUTCOMES:
                self.counts[listener, mechanism, outcome] += 0  # series exist from the start
        settings = self.settings.for_listener(listener)
        return Sasl(
            listener=listener,
            mechanisms={each: self._begin(listener, each, given) for each in given.mechanisms},
            lifetime_ms=given.lifetime_ms,
            seconds=self.clock.seconds,
            wall_ms=self.clock.wall,
            audit=audit,
            delay_s=settings.connection_failed_authentication_delay_ms / 1000,
            receive_bytes=settings.sasl_server_max_receive_size,
        )

    def _begin(self, listener: str, mechanism: str, given: ListenerSasl) -> Begin:
        if mechanism == PLAIN:
            return self._plain(given)
        if mechanism == OAUTHBEARER:
            return self._oauth(settings_of(self.settings, listener, mechanism))
        return partial(ScramLogin, mechanism, self.users, self.threads)

    def _plain(self, given: ListenerSasl) -> Begin:
        from groupkeeper.access.plain import PlainConversation, listed, stored

        if given.passwords is not None:
            return partial(PlainConversation, listed(given.passwords))
        return partial(PlainConversation, stored(self.users, self.threads))

    def _oauth(self, settings: Settings) -> Begin:
        """Return what begins conversations that share the keys of the issuer."""
        from groupkeeper.access.jwks import Jwks
        from groupkeeper.access.oauth import OAuthConversation, TokenRules, validator

        assert settings.sasl_oauthbearer_jwks_endpoint_url is not None, "checked by sasl_of"
        audiences = (settings.sasl_oauthbearer_expected_audience or "").split(",")
        rules = TokenRules(
            issuer=settings.sasl_oauthbearer_expected_issuer,
            audiences=frozenset(each.strip() for each in audiences if each.strip()),
            skew_s=settings.sasl_oauthbearer_clock_skew_seconds,
            scope_claim=settings.sasl_oauthbearer_scope_claim_name or "scope",
            sub_claim=settings.sasl_oauthbearer_sub_claim_name or "sub",
        )
        pauses_ms = (
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        )
        jwks = Jwks(
            settings.sasl_oauthbearer_jwks_endpoint_url,
            settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
            (pauses_ms[0] / 1000, pauses_ms[1] / 1000),
            self.clock.seconds,
        )
        clock = self.clock
        validate = validator(jwks, rules, self.threads, lambda: clock.wall() / 1000)
        return partial(OAuthConversation, validate)


def logins_of(
    options: ServeOptions,
    topics: Topics,
    clock: Clock,
    executor: Callable[[str], Executor],
    counts: Authentications,
) -> Mapping[str, LoginFactory]:
    """Return what makes the logins, by the names of the listeners that need one. Raises
    SettingsError.
    """
    threads = LoginThreads(executor)
    topics.before_close.append(threads.close)
    users = Users(lambda: topics.catalog.access)
    logins = Logins(options.settings, users, clock, threads, counts)
    try:
        return logins.by_listener(options.listeners)
    except SaslSettingError as problem:
        raise SettingsError(str(problem)) from None
