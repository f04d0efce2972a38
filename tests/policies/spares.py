"""As many members as a group is to have get partitions; the others stand by."""

import time

from tests.clients.process import Partition, Worker, wait_until
from tests.policies.checks import check
from tests.policies.clients import CONSUMERS
from tests.policies.party import AT_ONCE_MS, NO_GRACE, NO_REBALANCE, SESSION_MS, Party
from tests.suites.checks import UnmetError

_SIZE = "classic.target.group.size"
_TWO = {**NO_GRACE, _SIZE: "2"}


def _stand_by(party: Party, *names: str) -> list[Worker]:
    """Members that come beyond the size, one by one."""
    members: list[Worker] = []
    told: list[str] = []
    for name in names:
        members.append(party.join(name))
        told.append(f"rebalance_deferred who={name} policy={_SIZE}")
        party.expect(*told)
    return members


def _with_spare(party: Party) -> tuple[Worker, Worker, set[Partition]]:
    """The one that will be lost, the spare, and what the first one has."""
    alpha, beta = party.settled("alpha", "beta")
    [gamma] = _stand_by(party, "gamma")
    party.begin(alpha)
    if gamma.owned:
        raise UnmetError(f"a standby has {len(gamma.owned)} partitions")
    return beta, gamma, set(beta.assigned or ())


def _got_all(spare: Worker, held: set[Partition], within_ms: int) -> None:
    began = time.monotonic()
    wait_until(lambda: spare.assigned == held, [spare])
    took_ms = round((time.monotonic() - began) * 1000)
    if took_ms > within_ms:
        raise UnmetError(f"the standby had the partitions after {took_ms} ms, not {within_ms}")


def _nobody_stopped(party: Party, spare: Worker, held: set[Partition]) -> None:
    party.took_over(spare, held)
    party.expect("standby_activated who=gamma", NO_REBALANCE)
    party.nobody()


@check("21a", "a member is closed, and a standby is there", *CONSUMERS, configs=_TWO)
def _closed(party: Party) -> None:
    beta, spare, held = _with_spare(party)
    party.leave(beta)
    _got_all(spare, held, AT_ONCE_MS)
    _nobody_stopped(party, spare, held)
    party.expect("standby_activated who=gamma cause=member_left", NO_REBALANCE)


@check("21b", "a member is killed, and a standby is there", *CONSUMERS, configs=_TWO)
def _killed(party: Party) -> None:
    beta, spare, held = _with_spare(party)
    party.lose(beta)
    _got_all(spare, held, SESSION_MS + AT_ONCE_MS)
    _nobody_stopped(party, spare, held)
    party.expect("standby_activated who=gamma cause=session_expired", NO_REBALANCE)


@check("22", "the lost one is back, and stands by", *CONSUMERS, configs=_TWO)
def _back(party: Party) -> None:
    """And takes over when the other one leaves."""
    beta, spare, held = _with_spare(party)
    party.lose(beta)
    _nobody_stopped(party, spare, held)
    back = party.join("beta")
    party.expect("standby_activated who=gamma", f"rebalance_deferred who=beta policy={_SIZE}")
    party.leave(spare)
    _got_all(back, held, AT_ONCE_MS)
    party.took_over(back, held)
    party.expect("standby_activated who=gamma", "standby_activated who=beta", NO_REBALANCE)
    party.nobody()


@check("23", "the size is raised and lowered", *CONSUMERS, configs=_TWO)
def _resized(party: Party) -> None:
    party.settled("alpha", "beta")
    _stand_by(party, "gamma", "delta")
    for size in (3, 2):
        party.begin()
        party.configure({_SIZE: str(size)})
        party.expect("rebalance_started cause=policy_changed")
        party.shared_by(size)
        party.expect_rebalances(1, rounds=False)
