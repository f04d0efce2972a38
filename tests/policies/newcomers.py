"""Several newcomers cost one rebalance, and a member that comes and goes one for each interval."""

import time
from itertools import pairwise

from tests.policies.checks import check
from tests.policies.clients import CONSUMERS
from tests.policies.party import LONG_SESSION_MS, NO_GRACE, TOLD_S, Party
from tests.suites.checks import UnmetError

_NAMES = ("beta", "gamma", "delta", "epsilon")
_WINDOW_MS = 5_000
_INTERVAL_MS = 10_000
_SHORT_MS = 3_000
_CRASHES = 4
_TOLERANCE_MS = 100
_WINDOW = {**NO_GRACE, "classic.scale.up.window.ms": str(_WINDOW_MS)}
_INTERVAL = {**NO_GRACE, "classic.rebalance.min.interval.ms": str(_INTERVAL_MS)}


@check("15", "several newcomers within a few seconds", *CONSUMERS, configs=_WINDOW)
def _window(party: Party) -> None:
    party.settled("alpha")
    party.begin()
    for name in _NAMES:
        party.join(name, LONG_SESSION_MS)
    party.expect("rebalance_started cause=window_over")
    party.shared_by(1 + len(_NAMES))
    party.expect_rebalances(1, rounds=False)
    [began, *_] = party.events("rebalance_started")
    newcomers = began.fields["cause"]["evidence"]["newcomers"]
    if newcomers != len(_NAMES):
        raise UnmetError(f"{newcomers} newcomers waited, not {len(_NAMES)}")


@check("16", "a member crashes again and again", *CONSUMERS, configs=_INTERVAL)
def _crash_loop(party: Party) -> None:
    """For longer than two intervals. In one its place is kept, so that it is back where it was, or
    joins and gets nothing yet.
    """
    party.join("alpha", LONG_SESSION_MS)
    party.shared_by(1)
    beta = party.join("beta", _SHORT_MS)
    party.shared_by(2)
    party.begin()
    for _ in range(_CRASHES):
        before = set(party.assignments())
        party.lose(beta)
        time.sleep(1.3 * _SHORT_MS / 1000)
        beta = party.join("beta", _SHORT_MS)
        _await_another(party, before)
    party.shared_by(2)
    starts = [each.at_ms for each in party.rebalances(rounds=False)]
    apart = [after - before for before, after in pairwise(starts)]
    if any(each < _INTERVAL_MS - _TOLERANCE_MS for each in apart):
        raise UnmetError(f"rebalances started {apart} ms after each other")


def _await_another(party: Party, before: set[str]) -> None:
    """Wait until a member is there that was not."""
    until = time.monotonic() + TOLD_S
    while party.assignments().keys() <= before:
        assert time.monotonic() < until, "the member does not come back"
        time.sleep(0.1)
