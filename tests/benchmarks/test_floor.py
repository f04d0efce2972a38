"""The bare responder answers what the generator expects, else it would be no yardstick."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from benchmarks import wire
from benchmarks.crowd import Link
from benchmarks.floor import Responder
from benchmarks.members import stable_groups
from groupkeeper.protocol.api_keys import ApiKey


@pytest.fixture
def port() -> Iterator[int]:
    """A responder on a loop of its own, in a thread."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(Responder, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.fixture
def link(port) -> Iterator[Link]:
    with contextlib.closing(Link(port)) as link:
        yield link


def test_it_offers_what_the_generator_asks_for(link):
    offered = wire.offered(link.call(wire.api_versions()))
    assert ApiKey.CREATE_TOPICS not in offered
    assert {8, 10, 11, 12, 13, 14} < set(offered)


def test_heartbeats_and_commits_get_the_expected_bytes(link):
    beat = link.call(wire.heartbeat(b"group", 1, b"m", None))
    commit = link.call(wire.offset_commit(b"group", 1, b"m", 20))
    assert beat == wire.heartbeat_answer()[8:]
    assert commit == wire.offset_commit_answer(20)[8:]


def test_members_settle_each_in_a_group_of_its_own(port):
    groups = stable_groups(port, 3, 1)
    assert [group.generations for group in groups] == [1, 1, 1]
    with contextlib.closing(Link(port)) as link:
        groups[0].leave(link)
    for group in groups:
        group.close()
