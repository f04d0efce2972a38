"""Programs that keep books of their own in their assignments: Kafka Streams and Kafka Connect."""

import time
from collections.abc import Callable

from tests.policies.checks import check
from tests.policies.clients import PROGRAMS
from tests.policies.party import NO_GRACE, NO_REBALANCE, RESERVE_ON, Party
from tests.suites.checks import UnmetError
from tests.truth.incidents.connect import APPLICATION, GROUP, ConnectWorker, Streams

_STREAMS, _CONNECT = PROGRAMS
_QUIET_S = 6.0
_LEFT = {RESERVE_ON: "lost,left"}


def _bounced(party: Party, lost: str, again: Callable[[], object]) -> None:
    """Nothing moves while a process is away, and after it is back."""
    before = sorted(party.assignments().values())
    party.expect(f"seat_reserved who={lost}")
    again()
    party.expect(f"member_replaced who={lost} quick=true", NO_REBALANCE)
    time.sleep(_QUIET_S)
    party.expect(f"member_replaced who={lost} quick=true", NO_REBALANCE)
    party.nobody()
    if sorted(party.assignments().values()) != before:
        raise UnmetError("tasks moved")


@check("28a", "an instance is killed, and back", _STREAMS, group=APPLICATION)
def _streams(party: Party) -> None:
    stage = party.stage
    Streams(stage, "one").running()
    stage.group.send(5)
    two = Streams(stage, "two").running()
    _rests(party)
    party.begin()
    two.kill()
    _bounced(party, "two-StreamThread-1-consumer", lambda: Streams(stage, "two"))


@check("28b", "a worker is ended in order, and back", _CONNECT, group=GROUP, configs=_LEFT)
def _connect(party: Party) -> None:
    _bounce_worker(party, ConnectWorker.end)


@check("28c", "a worker is killed, and back", _CONNECT, group=GROUP)
def _connect_killed(party: Party) -> None:
    _bounce_worker(party, ConnectWorker.kill)


def _bounce_worker(party: Party, end: Callable[[ConnectWorker], None]) -> None:
    """One that does not lead: the others know their leader by its member id."""
    stage = party.stage
    one, two = (ConnectWorker(stage, name).ready() for name in ("worker-1", "worker-2"))
    one.connector(stage, 1)
    _rests(party)
    party.begin()
    end(two)
    _bounced(party, "worker-2", lambda: ConnectWorker(stage, "worker-2").ready())


_OTHERS = {
    **NO_GRACE,
    "classic.target.group.size": "1",
    "classic.scale.up.window.ms": "2000",
    "classic.rebalance.min.interval.ms": "2000",
    "classic.expected.instance.ids": "one",
    "classic.unexpected.members": "refuse",
    "classic.remote.assignor": "uniform",
}
_EXPECTED = {**NO_GRACE, "classic.expected.instance.ids": "one-1,two-1"}
_NOT_FOR_IT = "policies that are not for it do nothing"


@check("28d", _NOT_FOR_IT, _STREAMS, group=APPLICATION, configs=_OTHERS)
def _streams_untouched(party: Party) -> None:
    stage = party.stage
    party.has_begun = True
    Streams(stage, "one").running()
    stage.group.send(5)
    Streams(stage, "two").running()
    _untouched(party)
    names = ("one-StreamThread-1-consumer", "two-StreamThread-1-consumer")
    if idle := [each for each in names if not party.held_by(each)]:
        raise UnmetError(f"{', '.join(idle)} have no partitions")


@check(
    "28f", "expected, but its assignor keeps data", _STREAMS, group=APPLICATION, configs=_EXPECTED
)
def _streams_expected(party: Party) -> None:
    """The first instance does not wait for the second."""
    stage = party.stage
    party.has_begun = True
    Streams(stage, "one", "static").running()
    party.expect("policy_refused", "no rebalance_deferred")


@check("28e", _NOT_FOR_IT, _CONNECT, group=GROUP, configs=_OTHERS)
def _connect_untouched(party: Party) -> None:
    stage = party.stage
    party.has_begun = True
    one, _ = (ConnectWorker(stage, name).ready() for name in ("worker-1", "worker-2"))
    one.connector(stage, 1)
    _untouched(party)


def _untouched(party: Party) -> None:
    _rests(party)
    party.expect("policy_refused", "no rebalance_deferred", "no assignment_changed")
    party.expect("policy_refused", "no standby_activated")
    if len(party.assignments()) != 2:
        raise UnmetError(f"{len(party.assignments())} members, not 2")
    told = set(party.events("policy_refused")[0].fields["policies"])
    wanted = _OTHERS.keys() - {*NO_GRACE, "classic.unexpected.members"}
    if told != wanted:
        raise UnmetError(f"refused are {sorted(told)}, not {sorted(wanted)}")


def _rests(party: Party, seconds: float = 60.0) -> None:
    """Wait until nothing was rebalanced for a while."""
    until = time.monotonic() + seconds
    generation = 0
    while True:
        time.sleep(_QUIET_S)
        state = party.state()
        if state["state"] == "Stable" and state["generation"] == generation:
            return
        generation = state["generation"]
        assert time.monotonic() < until, "the group does not come to rest"
