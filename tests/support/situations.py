"""What goes wrong with consumers, driven against a whole server under virtual time.

docs/why.md shows what `groupkeeper why` says of each, and tests/history/test_served.py checks that
the causes are right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, time_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event
from tests.simulation.cluster import START_OF_TIME_MS
from tests.support.apps import BEAT_S, GROUP, App, again, finish, live, rebalance, share, three
from tests.support.served import Served
from tests.support.stored_events import stored

ADMIN = "adminclient-1"
EVEN_MS: Final = 100
SHIFT_MS: Final = START_OF_TIME_MS - 1_795_316_400_000
"""So that all begin at 2026-11-22 03:00 UTC."""


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


def partitions_added(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    a.reason = "cached metadata has changed from (version2: {orders=6}) to (version3: {orders=12})"
    a.ask()
    finish(served, a, *live(served, BEAT_S, b, c))
    return began


def restarted_quickly(served: Served) -> float:
    a, b, c = three(served)
    began = served.loop.time()
    c.goodbye("the consumer is being closed")
    told = live(served, BEAT_S, a, b)
    rebalance(served, *told)
    served.advance(1)
    c = c.restart()
    c.ask()
    finish(served, c, *live(served, BEAT_S, a, b))
    return began


def static_restarts(served: Served) -> float:
    apps = [App(served, "billing", instance=f"pod-{n}") for n in (1, 2, 3)]
    rebalance(served, *apps)
    live(served, 30, *apps)
    began = served.loop.time()
    for number, pause_s in enumerate((2.0, 4.5, 3.0, 2.5)):
        old = apps[number % 3]
        old.hang_up()
        served.advance(pause_s)
        apps[number % 3] = old.restart()
        apps[number % 3].ask()
        apps[number % 3].joined()
        live(served, 9, *apps)
    return began


def taken_over(served: Served) -> float:
    a, b = (App(served, "billing", instance=f"pod-{n}") for n in (1, 2))
    rebalance(served, a, b)
    live(served, 30, a, b)
    began = served.loop.time()
    twin = b.restart()
    twin.ask()
    twin.joined()
    return began


def rejoined_after_load(served: Served) -> float:
    apps = [App(served, f"billing-{letter}") for letter in "abc"]
    for each in apps:
        each.more_protocols = ("cooperative-sticky",)
    rebalance(served, *apps, gap_s=0.5)
    live(served, 30, *apps)
    began = served.loop.time()
    served.restart(after=1)
    served.settled()
    a, b, c = (again(served, app) for app in apps)
    live(served, BEAT_S, a, b, c)
    c.ask()
    finish(served, c, *live(served, BEAT_S, a, b))
    return began


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
        ["session_expired"],
    ),
    Situation(
        "The coordinator is away for longer than a session",
        "The server is killed, and started again 20 s later. The consumers run all the time; their"
        " clients have given their places up, as librdkafka does, and join as new members.",
        coordinator_away,
        ["member_joined/coordinator_stalled"],
    ),
    Situation(
        "A member subscribes to another topic",
        "One of three consumers is configured with a second topic while it runs.",
        other_topics,
        ["subscription_changed"],
    ),
    Situation(
        "Partitions are added",
        "The leader's client sees that a topic has more partitions, and rejoins to assign them.",
        partitions_added,
        ["leader_rejoined/partitions_changed"],
    ),
    Situation(
        "A member is restarted within seconds",
        "One of three consumers is closed and started again at once.",
        restarted_quickly,
        ["member_left/shutdown", "member_joined"],
    ),
    Situation(
        "Static members are restarted again and again",
        "Consumers with a `group.instance.id` crash, and are back within their session.",
        static_restarts,
        [],
    ),
    Situation(
        "Another client takes the place of a running one",
        "A second client starts with the `group.instance.id` of one that still runs.",
        taken_over,
        [],
    ),
    Situation(
        "A member rejoins after the coordinator was restarted",
        "The server is restarted. A consumer that offers two assignors rejoins, unchanged.",
        rejoined_after_load,
        ["rejoined_after_load"],
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
