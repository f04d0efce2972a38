"""A member is lost, or leaves, and comes back."""

import re

from tests.clients.process import wait_until
from tests.policies.checks import check
from tests.policies.clients import CONSUMERS
from tests.policies.party import GRACE, LONG_SESSION_MS, NO_REBALANCE, RESERVE_ON, Party
from tests.suites.checks import UnmetError

_LEFT = {RESERVE_ON: "lost,left"}
_TOO_SHORT_MS = 3_000


@check("2", "closed, and back", *CONSUMERS, configs=_LEFT)
def _closed(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta")
    held = set(beta.assigned or ())
    party.begin(alpha)
    party.leave(beta)
    party.expect("seat_reserved who=beta cause=member_left")
    party.took_over(party.join("beta"), held)
    party.expect(
        "seat_reserved who=beta cause=member_left",
        "member_replaced who=beta quick=true",
        NO_REBALANCE,
    )
    party.nobody()


@check("3a", "killed, and back before its session ends", *CONSUMERS)
def _killed(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta", session_ms=LONG_SESSION_MS)
    held = set(beta.assigned or ())
    party.begin(alpha)
    party.lose(beta)
    party.took_over(party.join("beta", LONG_SESSION_MS), held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE, "no seat_reserved")
    party.nobody()


@check("3b", "killed, and back after its session", *CONSUMERS)
def _killed_for_longer(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta")
    held = set(beta.assigned or ())
    party.begin(alpha)
    party.lose(beta)
    party.expect("seat_reserved who=beta cause=session_expired")
    party.took_over(party.join("beta"), held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE)
    party.nobody()


def _leader_returns(party: Party, session_ms: int | None) -> None:
    """And leads the next rebalance, or another one does."""
    members = dict(
        zip(("alpha", "beta"), party.settled("alpha", "beta", session_ms=session_ms), strict=True)
    )
    name = party.leader(members)
    old = members.pop(name)
    held, [other] = set(old.assigned or ()), members.values()
    party.begin(other)
    party.lose(old)
    if session_ms is None:
        party.expect(f"seat_reserved who={name} cause=session_expired")
    back = party.join(name, session_ms)
    party.took_over(back, held)
    party.expect(f"member_replaced who={name} quick=true", NO_REBALANCE)
    party.nobody()
    party.group.settle(back, other, party.join("gamma"))
    party.expect("rebalance_started who=gamma cause=member_joined")


@check("4a", "the leader is killed, and back before its session ends", *CONSUMERS)
def _leader(party: Party) -> None:
    _leader_returns(party, LONG_SESSION_MS)


@check("4b", "the leader is killed, and back after its session", *CONSUMERS)
def _leader_for_longer(party: Party) -> None:
    _leader_returns(party, None)


@check("4c", "the leader is back, then others come, while a seat is reserved", *CONSUMERS)
def _leader_and_seat(party: Party) -> None:
    """The leader did not make the last plan; the seat is of another member, which is back last."""
    names = ("alpha", "beta", "gamma")
    members = dict(zip(names, party.settled(*names), strict=True))
    name = party.leader(members)
    old = members.pop(name)
    held = set(old.assigned or ())
    [(lost_name, lost), (_, other)] = members.items()
    party.begin(other)
    party.lose(old)
    party.lose(lost)
    party.expect("seat_reserved", "seat_reserved")
    back = party.join(name)
    party.took_over(back, held)
    party.expect(f"member_replaced who={name} quick=true", NO_REBALANCE)
    party.nobody()
    newcomer = party.join("delta")
    party.expect("rebalance_started who=delta cause=member_joined", "rebalance_completed")
    party.owned_or_reserved(lost_name, other, back, newcomer)
    held = party.held_by(lost_name)
    party.begin(other, back, newcomer)
    party.took_over(party.join(lost_name), held)
    party.expect(f"member_replaced who={lost_name} quick=true", NO_REBALANCE)
    party.nobody()


@check("5", "back too late", *CONSUMERS, configs={GRACE: str(_TOO_SHORT_MS)})
def _too_late(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta")
    party.begin(alpha)
    party.stage.now()
    party.lose(beta)
    party.expect(
        "seat_reserved who=beta cause=session_expired",
        "member_removed who=beta cause=seat_expired",
        "rebalance_started who=beta cause=seat_expired",
    )
    party.group.settle(alpha)
    party.expect_rebalances(1)
    party.group.settle(alpha, party.join("beta"))
    party.expect("rebalance_started cause=seat_expired", "rebalance_started cause=member_joined")
    told = " ".join(party.stage.layers.advice())
    number = re.search(r"longer than (\d+)", told)
    if number is None or int(number[1]) <= _TOO_SHORT_MS:
        raise UnmetError(f"the grace that would have been enough is not told: {told or 'nothing'}")


@check("6", "back with another subscription", *CONSUMERS)
def _other_topic(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta")
    party.begin()
    party.lose(beta)
    party.expect("seat_reserved who=beta cause=session_expired")
    back, elsewhere = party.join_elsewhere("beta")
    party.expect(
        "member_replaced who=beta quick=false",
        "rebalance_started who=beta cause=subscription_changed",
    )
    party.group.settle(alpha)
    wait_until(lambda: back.assigned == elsewhere, [back])
    if len(party.assignments()) != 2:
        raise UnmetError(f"{len(party.assignments())} members, not 2")
