"""The listeners of the Kafka port: bound and advertised addresses, and security protocols.

From `listeners`, `advertised.listeners` and `listener.security.protocol.map`, in Kafka's syntax.
Source: Kafka's `SocketServerConfigs`, `KafkaConfig` and `EndPoint`; KIP-103 (listener names).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from socket import getfqdn
from typing import Final

from groupkeeper.settings.options import (
    EVERYWHERE,
    PLAINTEXT,
    Address,
    Listen,
    SecurityProtocol,
    format_address,
    parse_address,
)
from groupkeeper.settings.setting import key_of
from groupkeeper.settings.table import Settings, SettingsError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
MOST: Final = 16
"""Maximum listeners of a server."""
_ENTRY: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*)")
HTTP: Final = "HTTP"
"""Name of the HTTP port where it has settings of listeners."""
PROTOCOLS: Final = "listener.security.protocol.map"
_CONTROLLER: Final = "CONTROLLER"
"""The port of KRaft's quorum in a broker's file: there is none here."""


@dataclass(slots=True, frozen=True)
class Given:
    """The command line's address of the only listener, which precedes the settings."""

    listen: Address | None
    advertise: Address | None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


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
        protocols = _protocols(settings.listener_security_protocol_map, bound)
        return tuple(
            replace(_listen(name, bound[name], told.get(name)), protocol=protocols[name])
            for name in bound
        )
    bind, advertised = given.listen or default, given.advertise
    if advertised is None and bind[0] in EVERYWHERE:
        raise SettingsError(
            f"--listen {format_address(bind)} is every address of this machine: "
            "name the one for clients with --advertise HOST:PORT"
        )
    return (Listen(given.protocol.name, bind, advertised, given.protocol),)


def _protocols(given: str | None, names: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Return the protocol of each listener. Raises SettingsError.

    As in Kafka, a map that is given has all of them. Without one, a name that is no protocol's is
    PLAINTEXT here.
    """
    known = {each.name: each for each in SecurityProtocol}
    if given is None:
        return {name: known.get(name, SecurityProtocol.PLAINTEXT) for name in names}
    found: dict[str, SecurityProtocol] = {}
    for entry in filter(None, map(str.strip, given.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not name or not colon or protocol not in known:
            raise SettingsError(
                f"{PROTOCOLS}: {entry!r} is not NAME:PROTOCOL with one of {', '.join(known)}"
            )
        if name in found:
            raise SettingsError(f"{PROTOCOLS}: {name} is given twice")
        found[name] = known[protocol]
    for name in names:
        if name not in found:
            raise SettingsError(
                f"{PROTOCOLS}: no protocol for the listener {name}: add {name}:PLAINTEXT, or "
                "another one"
            )
    return {name: found[name] for name in names}


def _listen(name: str, address: Address, advertised: Address | None) -> Listen:
    """Return a listener. No host means, as in Kafka, every address, advertised by host name."""
    host, port = address
    if host:
        return Listen(name, address, advertised)
    if advertised is None and not port:
        raise SettingsError(
            f"{LISTENERS}: {name}://:0: give a port, or a host as well: clients need both"
        )
    bind = EVERYWHERE[0], port
    return Listen(name, bind, advertised or (getfqdn(), port))


def without_effect(
    settings: Settings, given: Given, listeners: Sequence[Listen]
) -> tuple[str, ...]:
    """Return the keys that `--listen` replaces, and those of listeners that there are not."""
    names = {each.name.lower() for each in listeners}
    names |= {HTTP.lower()} if settings.http_tls else set()
    replaced = () if given.listen is None else _keys_in(settings)
    other = [of for *of, _ in settings.overrides if of[0] not in names]
    return (*replaced, *(key_of(*each) for each in other))


def _keys_in(settings: Settings) -> tuple[str, ...]:
    return tuple(key for key in (LISTENERS, ADVERTISED, PROTOCOLS) if key in settings.given)


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
        if name in seen:
            raise SettingsError(f"{key}: {name} is given twice")
        seen.add(name)
        every = address.startswith(":")
        try:
            host, port = parse_address(f"{EVERYWHERE[0]}{address}" if every else address)
            yield name, ("" if every else host, port)
        except ValueError as problem:
            raise SettingsError(f"{key}: {problem}") from None
