"""What goes wrong with consumers, driven against a whole server under virtual time.

docs/why.md shows what `groupkeeper why` says of each, and tests/history/test_served.py checks that
the causes are right. Not real clients: what these send is what such clients send.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, time_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.simulation.cluster import START_OF_TIME_MS
from tests.support.consumer import Membership, dealt, subscription
from tests.support.served import Client, Served
from tests.support.stored_events import stored
from tests.support.wire import Exchange

GROUP: Final = "billing"
PARTITIONS: Final = 6
BEAT_S: Final = 3.0
ADMIN = "adminclient-1"
EVEN_MS: Final = 100
SHIFT_MS: Final = START_OF_TIME_MS - 1_795_316_400_000
"""So that all begin at 2026-11-22 03:00 UTC."""


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
        software = {"client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}
        self.call(3, ApiVersionsRequest(**software))

    def ask(self) -> None:
        """Send JoinGroup, and again with the member id that a new dynamic member is given."""
        self.metadata = subscription(*self.topics)
        self.send(9, self.join_request())
        if self.instance_id is None and not self.member_id:
            answer = self.take()
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
            self.send(9, self.join_request())

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
        return App(
            self._served,
            self.name,
            instance=self.instance_id,
            session_ms=self.session_ms,
            poll_ms=self.rebalance_ms,
            protocol=self.protocol,
        )


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


# -- the situations --------------------------------------------------------------------------------


def paused(served: Served) -> float:
    a, b, _ = three(served)
    began = served.loop.time()
    late = live(served, 15, a, b)
    rebalance(served, *late, gap_s=0.4)
    return began


def killed(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    c.hang_up()
    rebalance(served, *live(served, 12, a, b))
    live(served, 12, a, b)
    again = c.restart()
    again.ask()
    told = live(served, BEAT_S, a, b)
    finish(served, again, *told)
    return began


def poll_too_late(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    live(served, 30, a, b, c)
    c.goodbye("consumer poll timeout has expired.")
    rebalance(served, *live(served, BEAT_S, a, b))
    return began


def slow_member(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    new = App(served, "billing-d")
    new.ask()
    live(served, BEAT_S, a, b, c)
    for app in (a, b):
        app.ask()
    live(served, 60, c)
    leaders = [app for app in (new, a, b) if app.joined()]
    share(served, leaders[0], (new, a, b))
    return began


def rolling_restart(served: Served) -> float:
    apps = three(served)
    live(served, 30, *apps)
    for number in range(3):
        began = served.loop.time()
        leaving = apps[number]
        leaving.goodbye("the consumer is being closed")
        others = [each for each in apps if each is not leaving]
        rebalance(served, *live(served, BEAT_S, *others))
        live(served, 6, *others)
        apps[number] = leaving.restart()
        apps[number].ask()
        finish(served, apps[number], *live(served, BEAT_S, *others))
    return began


def one_by_one(served: Served) -> float:
    apps = [App(served, "billing-a")]
    rebalance(served, *apps)
    live(served, 30, *apps)
    began = served.loop.time()
    for letter in "bcd":
        live(served, BEAT_S, *apps)
        new = App(served, f"billing-{letter}")
        new.ask()
        finish(served, new, *live(served, BEAT_S, *apps))
        apps.append(new)
    return began


def static_restart(served: Served) -> float:
    a, b, c = (App(served, "billing", instance=f"pod-{n}") for n in (1, 2, 3))
    rebalance(served, a, b, c)
    live(served, 30, a, b, c)
    began = served.loop.time()
    c.hang_up()
    rebalance(served, *live(served, 12, a, b))
    live(served, 27, a, b)
    again = c.restart()
    again.ask()
    finish(served, again, *live(served, BEAT_S, a, b))
    return began


def duel(served: Served) -> float:
    a, b = (App(served, "billing", instance=f"pod-{n}") for n in (1, 2))
    rebalance(served, a, b)
    live(served, 30, a, b)
    began = served.loop.time()
    twin = b.restart()
    for _ in range(2):
        twin.ask()
        twin.joined()
        served.advance(2)
        assert b.alive() == ErrorCode.FENCED_INSTANCE_ID
        twin, b = b, twin
        twin.member_id = ""
        served.advance(1)
    return began


def removed_by_admin(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    App(served, ADMIN).call(5, c.leave_request("billing-c hangs, ticket 4711"))
    rebalance(served, *live(served, BEAT_S, a, b))
    return began


def coordinator_restart(served: Served) -> float:
    a, b, _ = three(served)
    began = served.loop.time()
    served.restart(after=2)
    served.settled()
    a, b = (again(served, app) for app in (a, b))
    rebalance(served, *live(served, 12, a, b))
    return began


def coordinator_away(served: Served) -> float:
    apps = three(served)
    began = served.loop.time()
    served.restart(after=20)
    served.settled()
    a, b, c = (app.restart() for app in apps)
    for app in (a, b, c):
        app.ask()
    live(served, 12)
    leaders = [app for app in (a, b, c) if app.joined()]
    share(served, leaders[0], (a, b, c))
    return began


def other_topics(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    c.topics = ["orders", "payments"]
    c.ask()
    finish(served, c, *live(served, BEAT_S, a, b))
    return began


def group_shrunk(served: Served) -> float:
    apps = three(served)
    began = served.loop.time()
    served.machine.settings = replace(served.machine.settings, group_max_size=2)
    served.restart(after=1)
    served.settled()
    a, b, _ = (again(served, app) for app in apps)
    rebalance(served, *live(served, BEAT_S, a, b))
    return began


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


@dataclass(frozen=True)
class Situation:
    """`play` returns the loop's time from which on the events tell of it."""

    title: str
    story: str
    play: Callable[[Served], float]
    causes: Sequence[str]
    """Code and likely of each round, in order."""


SITUATIONS: Final = (
    Situation(
        "A process is paused",
        "One of three consumers stands still (a long garbage collection, SIGSTOP, a frozen virtual"
        " machine). Its connection stays open.",
        paused,
        ["session_expired/crash_or_network"],
    ),
    Situation(
        "A process is killed",
        "One of three consumers is killed with `kill -9`, and started again half a minute later.",
        killed,
        ["session_expired/crash_or_network", "member_joined"],
    ),
    Situation(
        "A batch takes too long",
        "The application of one consumer does not call poll within `max.poll.interval.ms`; its"
        " client leaves the group, and says why.",
        poll_too_late,
        ["member_left/max_poll_exceeded"],
    ),
    Situation(
        "One member holds up all others",
        "A fourth consumer joins. One of the others sends heartbeats, but its application is busy"
        " and does not come back to poll, so it does not rejoin.",
        slow_member,
        ["member_joined"],
    ),
    Situation(
        "A rolling restart",
        "Three consumers are restarted one after the other. The last of them is shown.",
        rolling_restart,
        ["member_left/rolling_restart", "member_joined/rolling_restart"],
    ),
    Situation(
        "Members are added one by one",
        "Three consumers join a running group, a few seconds apart.",
        one_by_one,
        ["member_joined", "member_joined", "member_joined"],
    ),
    Situation(
        "A static member comes back too late",
        "A consumer with a `group.instance.id` is restarted, which takes longer than its session.",
        static_restart,
        ["session_expired/crash_or_network", "static_member_joined"],
    ),
    Situation(
        "Two processes have one instance id",
        "Two running consumers are configured with the same `group.instance.id`.",
        duel,
        [],
    ),
    Situation(
        "An administrator removes a member",
        "Somebody removes a member with an admin client.",
        removed_by_admin,
        ["member_removed_by_admin"],
    ),
    Situation(
        "The coordinator restarts, and a member does not come back",
        "The server is killed and started again. Two of three consumers go on; the third has ended"
        " meanwhile.",
        coordinator_restart,
        ["session_expired/crash_or_network"],
    ),
    Situation(
        "The coordinator is away for longer than a session",
        "The server is killed, and started again 20 s later. The consumers run all the time; their"
        " clients have given their places up, as librdkafka does, and join as new members.",
        coordinator_away,
        ["member_joined"],
    ),
    Situation(
        "A member subscribes to another topic",
        "One of three consumers is configured with a second topic while it runs.",
        other_topics,
        ["subscription_changed"],
    ),
    Situation(
        "The group is larger than it may be",
        "The server is started again with a smaller `group.max.size`.",
        group_shrunk,
        ["group_shrunk"],
    ),
)


# -- what is told of them --------------------------------------------------------------------------


def told(situation: Situation) -> list[HistoryEntry]:
    """The rounds and lines of a situation, with times of which the details are left out."""
    served = Served("group.initial.rebalance.delay.ms=3000", "auto.create.topics.enable=true")
    try:
        began = situation.play(served)
        began_ms = START_OF_TIME_MS + int(began * 1000)
        folding = Folding()
        events = [_even(each) for each in stored(served, GROUP)]
    finally:
        served.close()
    entries = [entry for event in events for entry in folding.add(event)] + folding.rest()
    assert not folding.unknown, folding.unknown
    find_returns(entries)
    entries.sort(key=time_of)
    return [each for each in entries if time_of(each) >= began_ms // EVEN_MS * EVEN_MS - SHIFT_MS]


def _even(event: Event) -> Event:
    """Times to a tenth of a second, so that the latency of a virtual network does not show."""
    fields = _evened(dict(event.fields))
    at_ms, mono_ms = _round(event.at_ms) - SHIFT_MS, _round(event.mono_ms)
    return event._replace(at_ms=at_ms, mono_ms=mono_ms, fields=fields)


def _evened(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _round(value) if key.endswith("_ms") and isinstance(value, int) else _evened(value)
            for key, value in part.items()
        }
    return [_evened(each) for each in part] if isinstance(part, list) else part


def _round(ms: int) -> int:
    return round(ms / EVEN_MS) * EVEN_MS
