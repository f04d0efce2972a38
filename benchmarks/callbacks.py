"""`python -m benchmarks.callbacks`: the longest callback of the event loop at the largest sizes.

Starts a server that measures each of its callbacks (timed_loop.py): 10,000 members of one group
that join, are assigned, rejoin, time out, lose their sessions, leave, and are loaded after a
kill -9; 100,000 groups that are committed to, listed, described, expired and deleted, and their
topic with them; a member with 5,000 partitions; ids of 30 kB. Prints the longest callback of each
situation, in processor time, and ends with exit code 1 if one took longer than `--most-ms`.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.loop_times import Callback, LongestCallbacks
from groupkeeper.protocol.message import Message, key_of
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.chaos.wire import Client, Stream, ask_all, dial, pump
from tests.support.codecs import response_decoder
from tests.support.process import Process, assigned
from tests.support.requests import (
    commit_request,
    fetch_request,
    heartbeat,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.wire import frame

MOST_MS = 5.0
PROGRAM = (sys.executable, "-m", "benchmarks.timed_loop")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "1000",
    "message.max.bytes": str(16 << 20),  # so that the assignments of 10,000 members fit
    "offsets.retention.check.interval.ms": "5000",
    "max.connections": "20000",
}
TOPIC = "orders"
REBALANCE_MS = 20_000
SESSION_MS, SHORT_SESSION_MS = 90_000, 45_000


class TimedServer:
    """A server, and what it has measured."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told = folder / "callbacks"
        self._longest = LongestCallbacks(self._told)
        self.start()

    def start(self) -> None:
        """Start it, over what the last process has left in the data directory."""
        self.process = Process(
            *("--http", "127.0.0.1:0", "--data-dir", str(self._folder / "data")),
            *assigned(SETTINGS),
            program=PROGRAM,
            log=self._folder / "log",
            environment={**os.environ, "LONGEST_CALLBACKS": str(self._told)},
        )
        self.ready = self.process.ready()
        self.kafka = self.ready.kafka

    def kill(self) -> None:
        """End the process with SIGKILL; `start` begins the next one."""
        self.process.kill()

    def longest(self) -> Callback:
        """Since it was asked for last."""
        return self._longest.since_last(self.process.pid)


class Members:
    """Many members of one group, each with a connection."""

    def __init__(
        self, server: TimedServer, count: int, group: str, session_ms: int = SESSION_MS
    ) -> None:
        self.group, self.session_ms = group, session_ms
        self.dial(server, count)
        self.ids = [""] * count
        self.generation = 0
        self.leader = 0

    def dial(self, server: TimedServer, count: int) -> None:
        """A connection for each."""
        self.sockets = [dial(server.kafka) for _ in range(count)]

    def ask(self, requests: Sequence[Message], version: int, seconds: float = 120.0) -> list[Any]:
        """Send one on each of the first connections, and return the answers; None: none came."""
        answers: list[Any] = [None] * len(requests)
        decode = response_decoder(key_of(type(requests[0])), version)

        def into(at: int) -> Callable[[bytes], None]:
            return lambda body: answers.__setitem__(at, decode(body, 0, len(body))[1])

        pairs = zip(self.sockets, requests, strict=False)
        pump(
            [Stream(s, frame(version, r), 1, into(at)) for at, (s, r) in enumerate(pairs)], seconds
        )
        return answers

    def join(self) -> None:
        """All join; the last answer is that of the leader."""
        times = {"session_timeout_ms": self.session_ms, "rebalance_timeout_ms": REBALANCE_MS}
        answers = self.ask([join_request(self.group, each, **times) for each in self.ids], 3)
        self.ids = [answer.member_id for answer in answers]
        self.generation = max(answer.generation_id for answer in answers)
        self.leader = next(at for at, each in enumerate(answers) if each.members)

    def sync(self) -> None:
        """All send SyncGroup, the leader with an assignment of 100 bytes for each."""
        plan = dict.fromkeys(self.ids, bytes(100))
        plans = [plan if at == self.leader else {} for at in range(len(self.ids))]
        each = zip(self.ids, plans, strict=True)
        requests = [sync_request(who, self.generation, self.group, mine) for who, mine in each]
        errors = {answer.error_code for answer in self.ask(requests, 3)}
        assert errors == {0}, f"SyncGroup: errors {errors}"

    def beat(self) -> None:
        self.ask([heartbeat(each, self.generation, self.group) for each in self.ids], 3)

    def close(self) -> None:
        for each in self.sockets:
            each.close()


Steps = Iterator[str]
"""The names of the situations, each behind its last request."""


def members(server: TimedServer, count: int) -> Steps:
    """One group of very many."""
    crowd = Members(server, count, "crowd")
    yield "connections"
    crowd.join()
    yield "all join, and the join phase ends"
    crowd.sync()
    yield "all sync"
    crowd.beat()
    yield "heartbeats"
    crowd.join()
    yield "all rejoin"
    crowd.sync()
    crowd.beat()
    yield "all sync again"
    leader = join_request("crowd", crowd.ids[crowd.leader], rebalance_timeout_ms=REBALANCE_MS)
    crowd.sockets[0], crowd.sockets[crowd.leader] = crowd.sockets[crowd.leader], crowd.sockets[0]
    crowd.ask([leader], 3)
    yield "the leader rejoins, and the others are removed"
    crowd.ids = [""] * count
    crowd.join()
    time.sleep(REBALANCE_MS / 1000 + 3.0)
    yield "all join anew, and no one syncs in time"
    crowd.ids = [""] * count
    crowd.join()
    crowd.sync()
    client = Client(server.kafka)
    client.call(5, DescribeGroupsRequest(groups=["crowd"]))
    with urlopen(f"http://{server.ready.http}/api/v1/groups/crowd", timeout=60) as page:
        page.read()
    yield "described, and shown over HTTP"
    client.call(4, leave_request(*crowd.ids, group_id="crowd"))
    yield "one LeaveGroup of all"
    crowd.close()
    time.sleep(2.0)
    yield "all hang up"


def sessions(server: TimedServer, count: int) -> Steps:
    """Their sessions end together."""
    crowd = Members(server, count, "silent", SHORT_SESSION_MS)
    crowd.join()
    crowd.sync()
    crowd.beat()
    server.longest()
    crowd.close()
    time.sleep(SHORT_SESSION_MS / 1000 + 3.0)
    yield "all hang up, and their sessions end"


def loaded(server: TimedServer, count: int) -> Steps:
    """The process crashes twice, and the next one loads them: they come back, and do not."""
    crowd = Members(server, count, "stored", SHORT_SESSION_MS)
    crowd.join()
    crowd.sync()
    crowd.close()
    server.kill()
    server.start()
    await_group(server, "stored")
    yield "kill -9, and the next start loads them"
    crowd.dial(server, count)
    crowd.beat()
    yield "heartbeats of those that were loaded"
    crowd.close()
    server.kill()
    server.start()
    await_group(server, "stored")
    server.longest()
    time.sleep(SHORT_SESSION_MS / 1000 + 3.0)
    yield "kill -9, and none of them comes back"


def await_group(server: TimedServer, group: str) -> None:
    """Wait until its partition is loaded, which an answer about the group's offsets tells."""
    client = Client(server.kafka)
    while client.call(8, fetch_request(group)).groups[0].error_code:
        time.sleep(0.1)


def groups(server: TimedServer, count: int) -> Steps:
    """Very many groups that have an offset."""
    client = Client(server.kafka)
    topic = [CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
    client.call(4, CreateTopicsRequest(topics=topic, timeout_ms=30_000))
    names = [f"group-{number:06}" for number in range(count)]
    frames = [frame(7, commit_request({(TOPIC, 0): 1}, name)) for name in names]
    assert ask_all(server.kafka, frames, 50, 300.0) == count
    yield "OffsetCommit of each"
    assert len(client.call(4, ListGroupsRequest()).groups) >= count
    yield "ListGroups"
    client.call(5, DescribeGroupsRequest(groups=names))
    yield "DescribeGroups of all"
    client.call(8, fetch_request(*names))
    yield "OffsetFetch of all"
    with urlopen(f"http://{server.ready.http}/metrics", timeout=60) as page:
        page.read()
    yield "/metrics"
    time.sleep(7.0)
    yield "the check for expired offsets"
    client.call(2, DeleteGroupsRequest(groups_names=names[: count // 2]))
    yield "DeleteGroups of half of them"
    client.call(3, DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=120_000))
    time.sleep(5.0)
    yield "DeleteTopics of their topic"


def partitions(server: TimedServer, count: int) -> Steps:
    """One member with very many partitions."""
    client = Client(server.kafka)
    topic = [CreatableTopic(name="wide", num_partitions=count, replication_factor=1)]
    client.call(4, CreateTopicsRequest(topics=topic, timeout_ms=60_000))
    yield "CreateTopics"
    joined = client.call(3, join_request("wide"))
    who, generation = joined.member_id, joined.generation_id
    share = b"\0\1\0\0\0\1\0\4wide" + count.to_bytes(4, "big")
    share += b"".join(number.to_bytes(4, "big") for number in range(count)) + b"\xff" * 4
    client.call(3, sync_request(who, generation, "wide", {who: share}))
    yield "JoinGroup and SyncGroup"
    places = {("wide", number): number for number in range(count)}
    for _ in range(3):
        client.call(7, commit_request(places, "wide", who, generation))
    yield "OffsetCommit of all partitions"
    for _ in range(3):
        client.call(8, fetch_request("wide"))
    yield "OffsetFetch of everything"
    client.call(4, leave_request(who, group_id="wide"))
    client.call(2, DeleteGroupsRequest(groups_names=["wide"]))
    yield "DeleteGroups"


def long_ids(server: TimedServer, count: int) -> Steps:
    """Ids of 30 kB, a new one each time."""
    frames = [frame(5, join_request(f"{at:030000}")) for at in range(count)]
    ask_all(server.kafka, frames, 10, 60.0)
    yield f"{count} JoinGroups with group ids of 30 kB"


def situations(server: TimedServer, options: argparse.Namespace) -> Iterator[str]:
    for name, steps in (
        (f"{options.members} members", members(server, options.members)),
        (f"{options.members} members", sessions(server, options.members)),
        (f"{options.members} members", loaded(server, options.members)),
        (f"{options.groups} groups", groups(server, options.groups)),
        (f"{options.partitions} partitions", partitions(server, options.partitions)),
        ("long ids", long_ids(server, 500)),
    ):
        if not options.only or any(each in name for each in options.only):
            for what in steps:
                yield f"{name}: {what}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.callbacks", description=__doc__)
    parser.add_argument("--members", type=int, default=10_000, help="of one group (10000)")
    parser.add_argument("--groups", type=int, default=100_000, help="with an offset (100000)")
    parser.add_argument("--partitions", type=int, default=5_000, help="of one member (5000)")
    parser.add_argument("--only", nargs="*", help="members, groups, partitions, ids")
    parser.add_argument("--most-ms", type=float, default=MOST_MS, help=f"a limit ({MOST_MS})")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    too_long = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callbacks-")))
        server = TimedServer(folder)
        stack.callback(server.kill)
        start = server.longest()
        print(f"start: longest {start.ms:.1f} ms, {start.name}", flush=True)
        for what in situations(server, options):
            found = server.longest()
            too_long += found.ms > options.most_ms
            line = f"{what:72} {found.ms:8.2f} ms of {found.count:7}  {found.name}"
            print(line, flush=True)
    print(f"{too_long} situations with a callback over {options.most_ms:g} ms")
    return bool(too_long)


if __name__ == "__main__":
    sys.exit(main())
