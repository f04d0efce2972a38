"""The server assigns, a few partitions at a time; topics get more partitions."""

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.clients.process import Partition, Worker
from tests.policies.checks import check
from tests.policies.clients import CONSUMERS, COOPERATIVE
from tests.policies.party import AT_ONCE_MS, NO_GRACE, NO_REBALANCE, Party
from tests.suites.checks import UnmetError
from tests.truth.foreign import FRANZ_GO, JAVA, OLDER_JAVA

_ENFORCE = [each for each in CONSUMERS if each.library in (JAVA, OLDER_JAVA, FRANZ_GO)]
"""Those that can be told to rejoin."""
_STEP = 2
_MANY = 12
_MORE = 9
_LOOKS_MS = 2_000
"""How often the server looks for new partitions."""
_SOON_S = 10.0
_LOOKS_AGAIN_MS = 14_000
_ASKED_S = 1.2
_ASSIGNS = {**NO_GRACE, "classic.remote.assignor": "uniform"}
_IN_STEPS = {**_ASSIGNS, "classic.rebalance.step.partitions": str(_STEP)}
_WATCHED = {**NO_GRACE, "classic.metadata.watch": "true"}


class Watch(threading.Thread):
    """Looks every 50 ms who has which partitions, by the listeners. What is seen only once may be
    half of what a client told, or the second of two processes that was heard first.
    """

    def __init__(self, party: Party) -> None:
        super().__init__(daemon=True)
        self._party = party
        self._over = threading.Event()
        self.twice: set[Partition] = set()
        """Partitions with two owners."""
        self.still = 0
        """How many had none, at most."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Look, until it is over."""
        group, members = self._party.group, self._party.stage.members
        twice, still = set[Partition](), set[Partition]()
        while not self._over.wait(0.05):
            with group.workers.changed:
                owned = Counter(place for member in [*members] for place in member.owned)
            twice_now = {place for place, number in owned.items() if number > 1}
            still_now = group.partitions - owned.keys()
            self.twice |= twice & twice_now
            self.still = max(self.still, len(still & still_now))
            twice, still = twice_now, still_now


@check("24", "a newcomer gets its share in steps", *CONSUMERS, configs=_IN_STEPS)
def _newcomer(party: Party) -> None:
    party.grow(_MANY)
    party.settled("alpha", "beta")
    party.begin()
    with Watch(party) as seen:
        party.join("gamma")
        party.expect("member_joined who=gamma", "assignment_changed", NO_REBALANCE)
        party.shared_by(3)
    party.expect("member_joined who=gamma", "assignment_changed", NO_REBALANCE)
    party.nobody()
    if seen.twice:
        raise UnmetError(f"{len(seen.twice)} partitions had two owners")
    if party.way == COOPERATIVE and seen.still > _STEP:
        raise UnmetError(f"{seen.still} partitions stood still at once, not {_STEP}")


def _asked(party: Party) -> tuple[Worker, Worker]:
    """Two members, of which the second stands still before it can give up what it is asked for."""
    alpha, beta = party.settled("alpha", "beta")
    party.begin()
    party.join("gamma")
    party.expect("member_joined who=gamma")
    beta.stop()
    return alpha, beta


_GONE = "member_removed who=beta cause=session_expired"


@check("25", "a member hangs that is to give partitions up", *CONSUMERS, configs=_ASSIGNS)
def _hangs(party: Party) -> None:
    """The others go on with everything; when it wakes up, it gets a share again."""
    _, beta = _asked(party)
    party.expect(_GONE, NO_REBALANCE)
    party.stage.members.remove(beta)
    party.shared_by(2)
    party.stage.members.append(beta)
    beta.go_on()
    party.shared_by(3)
    party.expect(_GONE, "member_joined who=beta", NO_REBALANCE)
    party.nobody()


@check("26", "a member is killed that is to give partitions up", *CONSUMERS, configs=_ASSIGNS)
def _killed(party: Party) -> None:
    _, beta = _asked(party)
    time.sleep(_ASKED_S)
    party.lose(beta)
    party.expect(_GONE, NO_REBALANCE)
    party.shared_by(2)
    party.expect(_GONE, NO_REBALANCE)
    party.nobody()


@check("29a", "a topic gets more partitions, and the server assigns", *CONSUMERS, configs=_ASSIGNS)
def _grown(party: Party) -> None:
    party.settled("alpha", "beta")
    party.begin()
    party.grow(_MORE)
    party.shared_by(2, _SOON_S)
    party.expect("assignment_changed", NO_REBALANCE)
    party.nobody()


@check("29b", "a topic gets more partitions, and is watched", *CONSUMERS, configs=_WATCHED)
def _watched(party: Party) -> None:
    """There is a rebalance at once; what the leader makes of it is its own affair."""
    party.settled("alpha", "beta")
    party.begin()
    began_ms = time.time() * 1000
    party.grow(_MORE)
    party.expect("rebalance_started cause=topics_changed", "rebalance_completed")
    took_ms = round(party.events("rebalance_started")[0].at_ms - began_ms)
    if took_ms > _LOOKS_MS + AT_ONCE_MS:
        raise UnmetError(f"the rebalance started after {took_ms} ms")
    try:
        party.shared_by(2, _SOON_S)
    except AssertionError:
        owned = sum(len(each.owned) for each in party.stage.members)
        raise UnmetError(f"the leader assigned {owned} of {_MORE} partitions") from None


@check(
    "29c", "the same, and clients look for themselves after a while", *CONSUMERS, configs=_WATCHED
)
def _looked(party: Party) -> None:
    """A leader that did not know of the new partitions assigns them when it does."""
    party.more["metadata.max.age.ms"] = _LOOKS_AGAIN_MS
    party.settled("alpha", "beta")
    party.begin()
    party.grow(_MORE)
    party.expect("rebalance_started")
    party.shared_by(2, 3 * _LOOKS_AGAIN_MS / 1000)


@check("29d", "a leader rejoins, and all is as before", *_ENFORCE, configs=_WATCHED)
def _rejoins(party: Party) -> None:
    members = dict(zip(("alpha", "beta"), party.settled("alpha", "beta"), strict=True))
    name = party.leader(members)
    leader = members.pop(name)
    party.begin(*members.values())
    leader.ask("enforce")
    party.expect(f"member_rejoined who={name}", NO_REBALANCE)
    party.nobody()
    party.shared_by(2)
