"""Which addresses other machines reach."""

import asyncio
import socket

import pytest

from groupkeeper.server.main import is_reachable


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
