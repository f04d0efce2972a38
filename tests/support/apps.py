"""Consumer applications on a whole server under virtual time, for situations that are told.

Not real clients: what these send is what such clients send.
"""

from collections.abc import Sequence
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.consumer import Membership, dealt, subscription
from tests.support.served import Client, Served
from tests.support.wire import Exchange

GROUP: Final = "billing"
PARTITIONS: Final = 6
BEAT_S: Final = 3.0


class App(Client, Membership):
    """A consumer application; `poll_ms` is its max.poll.interval.ms."""

    def __init__(
        self,
        served: Served,
        name: str,
        *,
        instance: str | None = None,
        session_ms: int = 10_000,
        poll_ms: int = 60_000,
        protocol: str = "range",
    ) -> None:
        Client.__init__(self, served)
        Membership.__init__(self, GROUP, instance, session_ms, poll_ms, protocol=protocol)
        self._exchange = Exchange(name)
        self.name = name
        self.topics = ["orders"]
        self.reason: str | None = None
        self.more_protocols: tuple[str, ...] = ()
        software = {"client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}
        self.call(3, ApiVersionsRequest(**software))

    def ask(self) -> None:
        """Send JoinGroup, and again with the member id that a new dynamic member is given."""
        self.metadata = subscription(*self.topics)
        self.send(9, self._join_request())
        if self.instance_id is None and not self.member_id:
            answer = self.take()
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
            self.send(9, self._join_request())

    def _join_request(self) -> JoinGroupRequest:
        request = self.join_request()
        request.reason = self.reason
        request.protocols += [
            JoinGroupRequestProtocol(name=name, metadata=self.metadata or b"")
            for name in self.more_protocols
        ]
        return request

    def joined(self) -> bool:
        """Take the answer to JoinGroup; whether this is the leader."""
        answer = self.take()
        assert answer.error_code == 0, answer.error_code
        self.take_join(answer)
        return bool(answer.leader == self.member_id and answer.members)

    def alive(self) -> int:
        """Send a heartbeat; the error code."""
        return int(self.call(4, self.heartbeat_request()).error_code)

    def goodbye(self, reason: str) -> None:
        """Send LeaveGroup."""
        self.call(5, self.leave_request(reason))
        self.member_id = ""

    def restart(self) -> "App":
        """The same application in a new process."""
        other = App(
            self._served,
            self.name,
            instance=self.instance_id,
            session_ms=self.session_ms,
            poll_ms=self.rebalance_ms,
            protocol=self.protocol,
        )
        other.more_protocols = self.more_protocols
        return other


def rebalance(served: Served, *apps: App, gap_s: float = 0.3) -> None:
    """All join, one after the other, and get their assignments."""
    for app in apps:
        app.ask()
        served.advance(gap_s)
    leaders = [app for app in apps if app.joined()]
    share(served, leaders[0], apps)


def share(served: Served, leader: App, apps: Sequence[App]) -> None:
    """The partitions are dealt out."""
    plan = dealt([app.member_id for app in apps], "orders", PARTITIONS)
    for app in apps:
        if app is not leader:
            app.send(5, app.sync_request())
    served.advance(0.2)
    leader.send(5, leader.sync_request(plan))
    for app in apps:
        assert app.take().error_code == 0


def live(served: Served, seconds: float, *apps: App) -> list[App]:
    """Time passes, and these send heartbeats; those that were told to rejoin."""
    told: dict[int, App] = {}
    for _ in range(round(seconds / BEAT_S)):
        served.advance(BEAT_S)
        for app in apps:
            if app.alive() == ErrorCode.REBALANCE_IN_PROGRESS:
                told[id(app)] = app
    return [*told.values()]


def three(served: Served, **fields: Any) -> list[App]:
    """A Stable group of three, half a minute old."""
    apps = [App(served, f"billing-{letter}", **fields) for letter in "abc"]
    rebalance(served, *apps, gap_s=0.5)
    # The first one formed the group alone: its round, and those that the others caused.
    live(served, 30, *apps)
    return apps


def again(served: Served, app: App) -> App:
    """The same process with a new connection."""
    other = app.restart()
    other.member_id, other.generation = app.member_id, app.generation
    return other


def finish(served: Served, new: App, *told: App) -> None:
    """The others rejoin after one that waits already."""
    for app in told:
        app.ask()
        served.advance(0.3)
    apps = (new, *told)
    leaders = [app for app in apps if app.joined()]
    share(served, leaders[0], apps)
