"""The listeners of the Kafka port: bound and advertised addresses.

From `listeners` and `advertised.listeners`, in Kafka's syntax. Source: Kafka's
`SocketServerConfigs` and `EndPoint`; KIP-103 (listener names).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from socket import getfqdn
from typing import Final

from groupkeeper.settings.options import (
    EVERYWHERE,
    PLAINTEXT,
    Address,
    Listen,
    format_address,
    parse_address,
)
from groupkeeper.settings.table import Settings, SettingsError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
MOST: Final = 16
"""Maximum listeners of a server."""
_ENTRY: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*)")
_NOT_SERVED: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Names that stand for a security protocol unless a map says otherwise."""

_CONTROLLER: Final = "CONTROLLER"
"""The port of KRaft's quorum in a broker's file: there is none here."""


@dataclass(slots=True, frozen=True)
class Given:
    """The command line's address of the only listener, which precedes the settings."""

    listen: Address | None
    advertise: Address | None


def listeners_of(settings: Settings, given: Given, default: Address) -> tuple[Listen, ...]:
    """Return all listeners of the server. Raises SettingsError."""
    if given.listen is None and (keys := _keys_in(settings)):
        if given.advertise is not None:
            raise SettingsError(
                f"--advertise and {keys[0]} are mutually exclusive: give it in {ADVERTISED}"
            )
        bound = {PLAINTEXT: default}
        if settings.listeners is not None:
            bound = dict(_entries(LISTENERS, settings.listeners))
        told = dict(_entries(ADVERTISED, settings.advertised_listeners or ""))
        _check(bound, told)
        return tuple(_listen(name, bound[name], told.get(name)) for name in bound)
    bind, advertised = given.listen or default, given.advertise
    if advertised is None and bind[0] in EVERYWHERE:
        raise SettingsError(
            f"--listen {format_address(bind)} is every address of this machine: "
            "name the one for clients with --advertise HOST:PORT"
        )
    return (Listen(bind=bind, advertised=advertised),)


def _listen(name: str, address: Address, advertised: Address | None) -> Listen:
    """Return a listener. No host means, as in Kafka, every address, advertised by host name."""
    host, port = address
    if host:
        return Listen(name, address, advertised)
    if advertised is None and not port:
        raise SettingsError(
            f"{LISTENERS}: {name}://:0: give a port, or a host as well: clients need both"
        )
    return Listen(name, (EVERYWHERE[0], port), advertised or (getfqdn(), port))


def without_effect(settings: Settings, given: Given) -> tuple[str, ...]:
    """Return the keys that `--listen` replaces."""
    return () if given.listen is None else _keys_in(settings)


def _keys_in(settings: Settings) -> tuple[str, ...]:
    return tuple(key for key in (LISTENERS, ADVERTISED) if key in settings.given)


def _check(bound: Mapping[str, Address], told: Mapping[str, Address]) -> None:
    """Validate the listeners. Raises SettingsError."""
    if not bound or len(bound) > MOST:
        raise SettingsError(f"{LISTENERS}: give 1 to {MOST} listeners, or leave it out")
    ports = [port for _, port in bound.values() if port]
    if len(ports) != len({*ports}):
        raise SettingsError(f"{LISTENERS}: each listener needs its own port")
    for name in told:
        if name not in bound:
            raise SettingsError(
                f"{ADVERTISED}: no listener {name}; {LISTENERS} has {', '.join(bound)}"
            )
    for name, (host, port) in told.items():
        if host in ("", *EVERYWHERE) or not port:
            raise SettingsError(
                f"{ADVERTISED}: clients cannot connect to {format_address((host, port))}: "
                f"write {name}://HOST:PORT with an address that they reach"
            )
    for name, address in bound.items():
        if name not in told and address[0] in EVERYWHERE:
            raise SettingsError(
                f"{LISTENERS}: {name}://{format_address(address)} is every address of this "
                f"machine: add {name}://HOST:PORT to {ADVERTISED}"
            )


def _entries(key: str, text: str) -> Iterator[tuple[str, Address]]:
    """Yield name (in upper case, as in Kafka) and address of each entry; the host may be empty."""
    seen = set()
    for entry in filter(None, map(str.strip, text.split(","))):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise SettingsError(f"{key}: {entry!r} is not NAME://HOST:PORT")
        name, address = found[1].upper(), found[2]
        if name == _CONTROLLER:
            continue
        if name in _NOT_SERVED:
            raise SettingsError(
                f"{key}: {entry!r}: TLS and SASL are not served: use PLAINTEXT, or another name"
            )
        if name in seen:
            raise SettingsError(f"{key}: {name} is given twice")
        seen.add(name)
        every = address.startswith(":")
        try:
            host, port = parse_address(f"{EVERYWHERE[0]}{address}" if every else address)
            yield name, ("" if every else host, port)
        except ValueError as problem:
            raise SettingsError(f"{key}: {problem}") from None
