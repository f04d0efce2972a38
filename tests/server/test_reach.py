"""Which addresses other machines reach."""

import asyncio
import socket

import pytest

from groupkeeper.server.main import is_reachable, warn_of_open_ports
from groupkeeper.settings.listeners import Given, listeners_of
from groupkeeper.settings.options import MEMORY, ServeOptions
from groupkeeper.settings.table import load
from tests.support.served import Lines


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"])
async def test_the_loopback_is_not_reached(host: str) -> None:
    assert not await is_reachable((host, 9092))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.7", "203.0.113.9", "fe80::1%eth0", "::ffff:10.0.0.1"]
)
async def test_every_other_address_is(host: str) -> None:
    assert await is_reachable((host, 9092))


@pytest.mark.parametrize(
    ("addresses", "reachable"),
    [
        (["127.0.1.1"], False),
        (["::1", "127.0.0.1"], False),
        (["127.0.1.1", "192.168.1.7"], True),
        ([], True),
    ],
)
async def test_a_name_is_as_open_as_the_most_open_of_its_addresses(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], reachable: bool
) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        if not addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", (address, 9092)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert await is_reachable(("kafka.example", 9092)) is reachable


@pytest.mark.parametrize(
    ("assignments", "warned"),
    [
        (["listeners=SSL://0.0.0.0:1"], True),
        (["listeners=SSL://0.0.0.0:1", "ssl.client.auth=requested"], True),
        (["listeners=SSL://0.0.0.0:1", "ssl.client.auth=required"], False),
        (["listeners=SSL://0.0.0.0:1", "listener.name.ssl.ssl.client.auth=required"], False),
        (["listeners=PLAINTEXT://0.0.0.0:1", "ssl.client.auth=required"], True),
        (["listeners=PLAINTEXT://127.0.0.1:1"], False),
    ],
)
async def test_a_port_that_asks_for_certificates_is_no_open_port(
    lines: Lines, assignments: list[str], warned: bool
) -> None:
    name = assignments[0].partition("=")[2].partition(":")[0]
    told = f"advertised.listeners={name}://kafka.example:1"
    settings, _ = load(assignments=[*assignments, told])
    listeners = listeners_of(settings, Given(None, None), ("127.0.0.1", 0))
    await warn_of_open_ports(ServeOptions(MEMORY, listeners, http=None, settings=settings))
    events = [each["event"].partition(":")[0] for each in lines()]
    assert events == ["Kafka port without authentication"] * warned


@pytest.mark.parametrize(
    ("host", "assignment", "told"),
    [
        ("0.0.0.0", "http.api.write=false", ["any client can read its pages"]),
        ("0.0.0.0", "http.api.write=true", ["any client can change groups"]),
        ("0.0.0.0", "http.tokens.file=/etc/groupkeeper/tokens", []),
        ("127.0.0.1", "http.api.write=true", []),
    ],
)
async def test_an_http_port_with_tokens_is_no_open_port(
    lines: Lines, host: str, assignment: str, told: list[str]
) -> None:
    settings, _ = load(assignments=[assignment])
    await warn_of_open_ports(ServeOptions(MEMORY, http=(host, 1), settings=settings))
    assert [each["event"].partition(": ")[2] for each in lines()] == told
