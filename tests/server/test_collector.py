"""Garbage collection: every run of it is small, and the server leaves it nothing to find."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.server.collector import LOOKED_AT
from tests.support.process import Process
from tests.support.requests import (
    codes_of,
    commit_request,
    create_request,
    delete_topic_request,
    fetch_request,
    heartbeat,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.wire import connect

# Prints the most objects that one collection looks at while ever more is made and kept.
GROWING = """
import gc
from groupkeeper.server.collector import collect_old, keep_collections_short

most = 0

def watch(phase, info):
    global most
    if phase == "start":
        most = max(most, sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))

gc.freeze()
keep_collections_short()
gc.callbacks.append(watch)
kept = []
for each in range(200_000):
    kept.append([each])
    if each % 5_000 == 0:
        collect_old()
print(most, gc.get_freeze_count())
"""

# The same while as many old objects are freed as young ones are made.
REPLACING = GROWING.replace(
    "kept = []",
    """old = [[each] for each in range(100_000)]
replaced = []
while old:
    replaced.append([old.pop()[0]])
    if len(old) % 5_000 == 0:
        collect_old()
kept = []""",
)

# Prints how often each generation is collected, within a callback and between two iterations.
IN_CALLBACKS = """
import gc
from groupkeeper.server.collector import collect_old, keep_collections_short

seen = [0, 0, 0]

def watch(phase, info):
    seen[info["generation"]] += phase == "start"

keep_collections_short()
gc.callbacks.append(watch)
kept = [[each] for each in range(50_000)]
print(*seen)
collect_old()
collect_old()
print(*seen)
"""

# The server without collections. With SIGUSR1 it prints what only a collection could free.
UNCOLLECTED = """
import gc, json, signal, sys
from groupkeeper.server import main

def report(*_):
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    print(json.dumps([str(type(each)) for each in gc.garbage]), flush=True)
    gc.set_debug(0)
    gc.garbage.clear()
    gc.collect()

after_ready = main.after_ready

def after_ready_and_disable(options):
    after_ready(options)
    gc.disable()
    signal.signal(signal.SIGUSR1, report)

main.after_ready = after_ready_and_disable
from groupkeeper.cli import main
sys.exit(main(sys.argv[1:]))
"""


def printed(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    ).stdout


@pytest.mark.parametrize(("script", "kept"), [(GROWING, 150_000), (REPLACING, 100_000)])
def test_a_collection_looks_at_few_objects_however_many_there_are(script: str, kept: int) -> None:
    most, set_aside = map(int, printed(script).split())
    assert most <= max(LOOKED_AT)
    assert set_aside > kept


def test_the_oldest_objects_are_collected_between_two_iterations_only() -> None:
    lines = printed(IN_CALLBACKS).splitlines()
    before, after = ([int(each) for each in line.split()] for line in lines)
    assert min(before[:2]) > 10
    assert before[2] == 0
    assert after[2] == 1, "nothing was left for the second call"


# Prints how many objects a collection has set aside that found a list of so many numbers.
LONG_LIST = """
import gc, sys
from groupkeeper.server.collector import keep_collections_short

keep_collections_short()
before, long = gc.get_freeze_count(), [*range(1_000, 1_000 + int(sys.argv[1]))]
gc.collect(0)
print(gc.get_freeze_count() - before)
"""


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_a_list_that_takes_long_to_look_at_is_looked_at_once(length: int) -> None:
    assert (int(printed(LONG_LIST, str(length))) > 0) == (length > 10)


class Uncollected(Process):
    """The server, its addresses, and what it says of its garbage."""

    def __init__(self, data_dir: Path, log: Path) -> None:
        arguments = ["--dev", "--http", "127.0.0.1:0", "--data-dir", str(data_dir)]
        super().__init__(*arguments, program=(sys.executable, "-c", UNCOLLECTED), log=log)
        self.kafka, self.http, *_ = self.ready()

    def garbage(self) -> list[str]:
        """Types of what was left since the last call."""
        time.sleep(0.2)  # the last connections are closed by then; too early would hide garbage
        self.send_signal(signal.SIGUSR1)
        found: list[str] = json.loads(self.line())
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Uncollected]:
    with Uncollected(tmp_path / "data", tmp_path / "log") as running:
        yield running


def live(server: Uncollected, number: int) -> None:
    """A group and a topic, from their beginning to their end, and clients that end otherwise."""
    client, group, topic = connect(server.kafka), f"g{number}", f"t{number}"
    client.call(4, create_request(topic, partitions=2))
    joined = client.call(3, join_request(group))
    member_id, generation = joined.member_id, joined.generation_id
    client.call(3, sync_request(member_id, generation, group, {member_id: b"x"}))
    assert client.call(4, heartbeat(member_id, generation, group)).error_code == 0
    places = {(topic, 0): 1, (topic, 1): 2}
    committed = client.call(7, commit_request(places, group, member_id, generation))
    assert set(codes_of(committed).values()) == {0}
    client.call(8, fetch_request(group))
    hang_up_while_waiting(server, group, topic)
    be_refused(server)
    client.call(5, leave_request(member_id, group_id=group))
    client.call(4, delete_topic_request(topic))
    client.call(1, DeleteGroupsRequest(groups_names=[group]))
    client.close()


def hang_up_while_waiting(server: Uncollected, group: str, topic: str) -> None:
    """In a join, and in a fetch of a topic that has no records."""
    joining, fetching = connect(server.kafka), connect(server.kafka)
    joining.send(3, join_request(group))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1000, topics=topics)
    fetching.send(11, request)
    joining.close()
    fetching.close()


def be_refused(server: Uncollected) -> None:
    client = connect(server.kafka)
    client.send_frame(b"\0\0\0\5hello")
    assert client.is_closed()
    client.close()


def test_what_ends_is_freed_without_a_collection(server: Uncollected) -> None:
    """A cycle that was set aside while it was in use would never be freed."""
    live(server, 0)  # codecs are compiled and modules imported once
    server.garbage()
    for number in range(1, 11):
        live(server, number)
    assert server.garbage() == []


def test_connections_of_the_http_port_are_freed_too(server: Uncollected) -> None:
    for _ in range(10):
        urlopen(f"http://{server.http}/metrics", timeout=60).read()
    assert [each for each in server.garbage() if "ransport" in each] == []


PAGE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", PAGE, PAGE[:9], b"hello\r\n\r\n", PAGE[:-2] + b"A: " + bytes(100_000), 50 * PAGE],
    ids=["nothing", "one request", "half a request", "no request", "too long", "pipelined"],
)
def test_a_client_of_the_http_port_may_end_at_any_moment(server: Uncollected, sent: bytes) -> None:
    host, port = server.http.rsplit(":", 1)

    def come_and_go() -> None:
        with socket.create_connection((host, int(port)), timeout=0.05) as client, suppress(OSError):
            client.sendall(sent)
            client.recv(2_000)

    come_and_go()  # modules are imported once
    server.garbage()
    for _ in range(5):
        come_and_go()
    assert server.garbage() == []
