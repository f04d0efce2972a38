"""What the page is shown: a server with ten thousand groups, and one that rebalances on demand.

Members speak Kafka's protocol over sockets of their own, and do what a journey says: nothing
happens by itself but what the server's timers do.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from groupkeeper.protocol.errors import ErrorCode
from tests.suites.checks import wait_for
from tests.support import consumer
from tests.support.batches import batch
from tests.support.consumer import dealt
from tests.support.process import ROOT, Server
from tests.support.requests import batch_request, commit_request, create_request
from tests.support.wire import Address, Client, connect

IMAGES: Final = ROOT / "docs" / "images"
GROUPS = 10_000
GROUP = "billing"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
TOPIC = "orders"
PARTITIONS = 6
RECORDS = 240
"""In each partition."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "http.api.write": "true",
    "offsets.topic.num.partitions": "8",
}
_AT_ONCE = 500
_SESSION_MS = 600_000


class Member(consumer.Member):
    """A consumer with a connection of its own."""

    def __init__(
        self, address: Address, name: str, group: str = GROUP, instance: str | None = None
    ) -> None:
        super().__init__(connect(address, client_id=name), group, instance, session_ms=_SESSION_MS)
        self.name = name
        self._waits = False

    def ask(self) -> None:
        """Send JoinGroup, unless one waits."""
        if not self._waits:
            self.ask_join()
        self._waits = True

    def ask_when_told(self) -> None:
        """Send JoinGroup once a heartbeat says that there is a rebalance."""
        if not self._waits:
            wait_for(
                lambda: self.beat() == ErrorCode.REBALANCE_IN_PROGRESS,
                f"{self.name} is told of a rebalance",
            )
            self.ask()

    def joined(self) -> list[str]:
        self._waits = False
        return super().joined()

    def settle_again(self) -> None:
        """Take the place of the static member that settled, as after a restart."""
        self.ask_join()
        self.joined()
        self.synced()

    def leave(self, reason: str | None = None) -> None:
        super().leave(reason)
        self.client.close()


def rebalance(members: Sequence[Member]) -> None:
    """New members join, the others follow, and all get their shares."""
    for each in members:
        if not each.member_id:
            each.ask()
    for each in members:
        each.ask_when_told()
    finish(members)


def finish(members: Sequence[Member]) -> None:
    """All have sent JoinGroup: take the answers, and share the partitions."""
    leads = [bool(each.joined()) for each in members]
    names = sorted(members, key=lambda each: each.name)
    plan = dealt([each.member_id for each in names], TOPIC, PARTITIONS)
    for each, is_leader in sorted(zip(members, leads, strict=True), key=lambda one: not one[1]):
        each.synced(plan if is_leader else {})


class Scene:
    """The server, and the members that are connected."""

    groups: ClassVar = GROUPS + 3
    """How many groups the page lists."""
    images: Path = IMAGES
    """The folder for screenshots."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder, SETTINGS)
        self.members: list[Member] = []

    def start(self) -> None:
        self.server.start()
        self._fill()
        self._live()

    def close(self) -> None:
        for each in self.members:
            each.client.close()
        self.server.stop()

    def end(self) -> None:
        """End the process that serves the page."""
        self.server.stop()

    def begin_again(self) -> None:
        """Start the process that serves the page, where it was."""
        self.server.start()

    @property
    def url(self) -> str:
        return f"http://{self.server.http}/"

    def member(self, name: str, group: str = GROUP, instance: str | None = None) -> Member:
        """A new member, which has sent nothing yet."""
        return Member(self.server.kafka, name, group, instance)

    def read(self, offset: int) -> None:
        """The group has read up to an offset in all partitions."""
        with connect(self.server.kafka) as client:
            places = {(TOPIC, each): offset for each in range(PARTITIONS)}
            client.call(8, commit_request(places, "reader"))

    def _fill(self) -> None:
        """A topic with records, and groups that have read some."""
        with connect(self.server.kafka, timeout=60) as client:
            client.call(4, create_request(TOPIC, partitions=PARTITIONS))
            data = batch(0, *[b"order"] * RECORDS, time=int((time.time() - 300) * 1000))
            for each in range(PARTITIONS):
                client.call(7, batch_request(TOPIC, each, data))
            self._crowd(client)
            places = {(TOPIC, each): 40 * each for each in range(PARTITIONS)}
            client.call(8, commit_request(places, GROUP))

    def _crowd(self, client: Client) -> None:
        """Ten thousand groups with an offset."""
        names = [f"group-{number:05}" for number in range(GROUPS)] + [HOSTILE, "reader"]
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            for name in some:
                client.send(8, commit_request({(TOPIC, 0): RECORDS}, name))
            for _ in some:
                client.take()

    def _live(self) -> None:
        """Six rebalances of the group, with members that come and go."""
        first = self.member("billing-a")
        rebalance([first])
        second = self.member("billing-b")
        rebalance([first, second])
        third = self.member("billing-c")
        rebalance([first, second, third])
        second.leave()
        rebalance([first, third])
        fourth = self.member("billing-d")
        rebalance([first, third, fourth])
        hostile = self.member(HOSTILE, HOSTILE)
        rebalance([hostile])
        self.members = [first, third, fourth, hostile]

    @property
    def consumers(self) -> list[Member]:
        """Those of the group."""
        return self.members[:3]
