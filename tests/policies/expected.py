"""Members that are expected start together and end together; those that are not are refused."""

import re
import time

from tests.apis.config_calls import SUBTRACT
from tests.clients.libraries import AIOKAFKA
from tests.clients.process import Worker
from tests.policies.checks import check
from tests.policies.clients import CONSUMERS
from tests.policies.party import AT_ONCE_MS, LONG_SESSION_MS, NO_GRACE, NO_REBALANCE, Party
from tests.suites.checks import UnmetError
from tests.truth.foreign import KAFKAJS

STATIC = [each for each in CONSUMERS if each.library != KAFKAJS]
DYNAMIC = [each for each in CONSUMERS if each not in STATIC]
"""kafkajs has no instance ids."""
_IDS = ("alpha", "beta", "gamma", "delta")
_WAIT_MS = 12_000
"""Longer than clients take to start."""
_EXPECTED = "classic.expected.instance.ids"
_FOUR = {**NO_GRACE, _EXPECTED: ",".join(_IDS), "classic.expected.max.wait.ms": "60000"}
_NOT_LONG = {**_FOUR, "classic.expected.max.wait.ms": str(_WAIT_MS)}
_ONLY_ALPHA = {**NO_GRACE, _EXPECTED: "alpha", "classic.unexpected.members": "refuse"}
_WORDS = re.compile(r"group.?max.?size|max(imum)? size", re.IGNORECASE)
_OWN_WORDS = {AIOKAFKA.name: re.compile("Unexpected error in join group .* UnknownError")}
"""Of a client that does not know the error."""
_DEFERRED = [f"rebalance_deferred policy={_EXPECTED}"] * 3
_SAYS_S = 20.0
_TOLERANCE_MS = 100


def _come(party: Party, *names: str, session_ms: int = LONG_SESSION_MS) -> list[Worker]:
    party.has_begun = True
    return [party.join(each, session_ms, static=True) for each in names]


def _wait(party: Party) -> None:
    """Three come, and have nothing."""
    members = _come(party, *_IDS[:3])
    party.expect(*_DEFERRED, NO_REBALANCE)
    if any(each.owned for each in members):
        raise UnmetError("a member has partitions before all are there")


@check("17", "three of four expected members come", *STATIC, configs=_NOT_LONG)
def _three(party: Party) -> None:
    _wait(party)
    party.expect(*_DEFERRED, "rebalance_started cause=expected_missing")
    party.shared_by(3)
    party.expect_rebalances(1, rounds=False)
    [began, *_] = party.events("rebalance_started")
    missing = began.fields["cause"]["evidence"]["missing"]
    if missing != ["delta"]:
        raise UnmetError(f"missing are {missing}, not delta")
    waited_ms = began.at_ms - party.events("rebalance_deferred")[0].at_ms
    if not -_TOLERANCE_MS <= waited_ms - _WAIT_MS <= AT_ONCE_MS:
        raise UnmetError(f"they waited for {waited_ms} ms, not {_WAIT_MS}")


@check("18", "four of four expected members come", *STATIC, configs=_FOUR)
def _all(party: Party) -> None:
    _wait(party)
    _come(party, _IDS[3])
    party.expect(*_DEFERRED, "rebalance_started cause=expected_complete")
    party.shared_by(4)
    party.expect_rebalances(1, rounds=False)


@check("19", "two are not expected any more, and end", *STATIC, configs=_FOUR)
def _end(party: Party) -> None:
    alpha, beta = _come(party, *_IDS[:2])
    gamma, delta = _come(party, *_IDS[2:], session_ms=6_000)
    party.shared_by(4)
    party.begin()
    party.configure({_EXPECTED: "gamma,delta"}, SUBTRACT)
    party.leave(gamma)
    time.sleep(AT_ONCE_MS / 1000)
    party.expect("configs_changed", NO_REBALANCE)
    party.leave(delta)
    party.expect("seat_reserved who=gamma", "rebalance_started")
    if party.shared_by(2) != [alpha, beta]:
        raise UnmetError("others have the partitions")
    party.expect_rebalances(1, rounds=False)


_IS_REFUSED = "a member that is not expected is refused"


@check("20", _IS_REFUSED, *STATIC, configs=_ONLY_ALPHA)
def _refused(party: Party) -> None:
    """And says so in its own words."""
    _come(party, "alpha")
    _refuses(party, static=True)


@check("20", _IS_REFUSED, *DYNAMIC, configs=NO_GRACE)
def _refused_without_id(party: Party) -> None:
    """Who is a member already is not refused."""
    party.join("alpha", LONG_SESSION_MS)
    party.shared_by(1)
    party.configure({key: value for key, value in _ONLY_ALPHA.items() if key not in NO_GRACE})
    _refuses(party, static=False)


def _refuses(party: Party, *, static: bool) -> None:
    [alpha] = party.shared_by(1)
    party.begin(alpha)
    omega = party.join("omega", LONG_SESSION_MS, static=static)
    party.stage.members.remove(omega)
    words = _OWN_WORDS.get(omega.library.name, _WORDS)
    until = time.monotonic() + _SAYS_S
    while not words.search(f"{omega.failed} {omega.log.read_text(errors='replace')}"):
        if time.monotonic() > until:
            raise UnmetError("the client does not say why")
        time.sleep(0.1)
    party.expect(NO_REBALANCE)
    party.nobody()
    party.consume()
