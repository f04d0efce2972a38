"""The Kafka port, over loopback sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from groupkeeper.connections.listener import Listener
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.fake_socket import Bench
from tests.support.wire import frame

QUESTION = frame(0, ApiVersionsRequest())


class Port:
    """A listener for two connections at most."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.table = self.bench.new_table(most=2)
        self.services = replace(self.bench.services, connections=self.table)
        self.listener = Listener(self.services)
        self.address = ("", 0)
        self.kept: list[asyncio.StreamWriter] = []

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)

    async def ask(self) -> asyncio.StreamReader | None:
        """A connection that has been answered; None if it was closed instead."""
        reader, writer = await self.dial()
        self.kept.append(writer)
        writer.write(QUESTION)
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return None
        return reader


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    port = Port()
    port.address = await port.listener.start(("127.0.0.1", 0))
    yield port
    port.listener.stop()
    port.listener.close()


async def test_port_0_is_any_free_one_and_the_real_one_is_told(port: Port) -> None:
    assert port.address[0] == "127.0.0.1"
    assert port.address[1] > 0
    assert await port.ask()


async def test_a_connection_too_many_is_closed_at_once(port: Port) -> None:
    kept = [await port.ask(), await port.ask()]
    assert await port.ask() is None
    assert all(kept)
    assert port.bench.stats.refused == 1


async def test_a_burst_does_not_get_around_the_limit(port: Port) -> None:
    answered = [
        reader for reader in await asyncio.gather(*(port.ask() for _ in range(40))) if reader
    ]
    assert (len(answered), port.bench.stats.refused) == (2, 38)


async def test_a_place_that_is_left_can_be_taken(port: Port) -> None:
    kept = [await port.ask(), await port.ask()]
    port.kept[0].close()
    async with asyncio.timeout(10):
        while (taken := await port.ask()) is None:
            pass
    assert not taken.at_eof()
    assert all(kept)


async def test_the_system_looks_for_peers_that_died(port: Port) -> None:
    await port.ask()
    [opened] = port.table.opened
    assert opened._transport is not None
    accepted = opened._transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_closing_closes_all_connections(port: Port) -> None:
    readers = [await port.ask(), await port.ask()]
    port.listener.close()
    for reader in readers:
        assert reader is not None
        assert await reader.read() == b""


async def test_after_stopping_none_is_accepted_and_open_connections_stay(port: Port) -> None:
    reader = await port.ask()
    port.listener.stop()
    with pytest.raises(OSError, match=r"Connect call failed|reset"):
        await port.dial()
    port.kept[0].write(QUESTION)
    assert reader is not None
    assert await reader.readexactly(4)


async def test_a_port_in_use_is_an_os_error(port: Port) -> None:
    with pytest.raises(OSError, match="address already in use"):
        await Listener(port.services).start(port.address)
