"""What happens to others, and by others, while a seat is reserved."""

from tests.clients.process import ClientError, Worker, wait_until
from tests.policies.checks import check
from tests.policies.clients import CONSUMERS, STICKY
from tests.policies.party import (
    AT_ONCE_MS,
    GRACE,
    LONG_SESSION_MS,
    MATCH,
    NO_REBALANCE,
    RESERVE_ON,
    Party,
)
from tests.suites.checks import UnmetError

_TEN = 10
_LEFT = {RESERVE_ON: "left"}


@check("7", "two leave, and one is back", *CONSUMERS, configs={**_LEFT, GRACE: "20000"})
def _two_leave(party: Party) -> None:
    alpha, beta, gamma = party.settled("alpha", "beta", "gamma")
    held = set(beta.assigned or ())
    party.begin(alpha)
    party.leave(beta)
    party.leave(gamma)
    party.expect("seat_reserved who=beta", "seat_reserved who=gamma")
    back = party.join("beta")
    party.took_over(back, held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE)
    party.nobody()
    party.expect(
        "member_removed who=gamma cause=seat_expired",
        "rebalance_started who=gamma cause=seat_expired",
    )
    party.group.settle(alpha, back)
    party.expect("rebalance_started cause=seat_expired")
    party.expect_rebalances(1)


@check("8a", "paused for longer than its session, and replaced", *CONSUMERS)
def _paused(party: Party) -> None:
    _pause(party, leads=False)


@check("8b", "the leader is paused for longer than its session, and replaced", *CONSUMERS)
def _paused_leader(party: Party) -> None:
    _pause(party, leads=True)


def _pause(party: Party, *, leads: bool) -> None:
    """It reads what it never commits; its replacement commits more; then it wakes, and commits."""
    members = dict(zip(("alpha", "beta"), party.settled("alpha", "beta"), strict=True))
    leader = party.leader(members)
    name = next(each for each in members if (each == leader) == leads)
    old = members.pop(name)
    held, [other] = set(old.assigned or ()), members.values()
    party.begin(other)
    party.group.await_records(party.group.send(1), other, old)
    old.stop()
    party.expect(f"seat_reserved who={name} cause=session_expired")
    back = party.join(name)
    wait_until(lambda: back.assigned == held, [back])
    party.group.await_records(party.group.send(2), other, back)
    party.group.commit(other, back)
    party.expect(f"member_replaced who={name} quick=true", NO_REBALANCE)
    party.nobody()
    before, answers = party.committed(), party.commits()
    number = old.tell("commit")
    old.go_on()
    refused = _refused(old, number)
    party.group.settle(other, old, back)
    gone = {each for each, offset in party.committed().items() if offset < before[each]}
    if gone:
        raise UnmetError(f"the offsets of {len(gone)} partitions went back")
    if not refused and party.commits()["NONE"] != answers["NONE"]:
        raise UnmetError("no offset went back, but a commit of the old process was accepted")


def _refused(member: Worker, commit: int) -> bool:
    """Whether the client told of it. Some say nothing, or do not send what is refused."""
    try:
        member.answer_to(commit)
    except ClientError:
        return True
    return False


@check("9a", "strangers take seats, the oldest first", *CONSUMERS, configs={**_LEFT, MATCH: "any"})
def _strangers(party: Party) -> None:
    alpha, beta, gamma = party.settled("alpha", "beta", "gamma")
    shares = [set(each.assigned or ()) for each in (beta, gamma)]
    party.begin(alpha)
    party.leave(beta)
    party.expect("seat_reserved who=beta")
    party.leave(gamma)
    party.expect("seat_reserved who=beta", "seat_reserved who=gamma")
    for name, share in zip(("delta", "epsilon"), shares, strict=True):
        party.took_over(party.join(name), share)
    party.expect(
        "member_replaced who=delta quick=true",
        "member_replaced who=epsilon quick=true",
        NO_REBALANCE,
    )
    party.nobody()


_ELSEWHERE = "127.0.0.2"


@check("9b", "back on another host", *CONSUMERS, configs={**_LEFT, MATCH: "client.id"}, cable=True)
def _other_host(party: Party) -> None:
    alpha, beta = party.settled("alpha", "beta")
    held = set(beta.assigned or ())
    party.begin(alpha)
    party.leave(beta)
    party.expect("seat_reserved who=beta")
    party.from_host(_ELSEWHERE)
    party.took_over(party.join("beta"), held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE)
    party.nobody()


@check("10b", "the same client id on another host", *CONSUMERS, configs=_LEFT, cable=True)
def _namesake(party: Party) -> None:
    """It is another process, with a place of its own. The one that left takes its seat."""
    alpha, beta = party.settled("alpha", "beta")
    party.begin()
    party.leave(beta)
    party.expect("seat_reserved who=beta")
    party.from_host(_ELSEWHERE)
    namesake = party.join("beta")
    party.expect("rebalance_started who=beta cause=member_joined", "no member_replaced")
    [seat] = [each.fields["who"]["member"] for each in party.events("seat_reserved")]
    party.owned_or_reserved(seat, alpha, namesake)
    held = party.held_by(seat)
    party.begin(alpha, namesake)
    party.from_host("127.0.0.1")
    party.took_over(party.join("beta"), held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE)
    party.nobody()


@check("10a", "ten have one client id", *CONSUMERS)
def _ten(party: Party) -> None:
    """One is killed and another one started before its session ends: which of them it is cannot be
    known. Then the next one takes the seat, which is of a process that ended.
    """
    members = [party.join("pod", LONG_SESSION_MS) for _ in range(_TEN)]
    party.group.settle(*members)
    party.stage.consumed(*(each for each in members if each.assigned))
    lost = next(each for each in members if each.assigned)
    before = set(party.assignments())
    party.begin()
    party.lose(lost)
    living = [each for each in members if each is not lost]
    living.append(party.join("pod", LONG_SESSION_MS))
    party.expect("rebalance_started who=pod cause=member_joined", "no member_replaced")
    party.expect("seat_reserved who=pod cause=session_expired")
    [seat] = [each.fields["who"]["member"] for each in party.events("seat_reserved")]
    assert seat in before
    wait_until(lambda: _is_shared(party, living), living)
    party.begin(*living)
    party.join("pod", LONG_SESSION_MS)
    party.expect("member_replaced who=pod quick=true", NO_REBALANCE)
    old = [each.fields["old_member"] for each in party.events("member_replaced")]
    if old != [seat]:
        raise UnmetError(f"{old} was replaced, and not {seat}, which is lost")
    party.nobody()


def _is_shared(party: Party, living: list[Worker]) -> bool:
    """Whether each partition has one owner, but for those of one seat."""
    owned = [each for member in living for each in member.assigned or ()]
    state = party.state()["state"] == "Stable"
    return state and len(owned) == len(set(owned)) >= len(party.group.partitions) - 1


def _with_newcomer(party: Party) -> tuple[Worker, Worker]:
    alpha, beta = party.settled("alpha", "beta")
    party.lose(beta)
    party.expect("seat_reserved who=beta cause=session_expired")
    party.begin()
    return alpha, party.join("gamma", LONG_SESSION_MS)


@check("11", "a newcomer joins while a seat is reserved", *CONSUMERS, STICKY)
def _newcomer(party: Party) -> None:
    """And the lost member comes back, to a fair share."""
    alpha, gamma = _with_newcomer(party)
    party.expect("rebalance_started who=gamma cause=member_joined", "rebalance_completed")
    party.owned_or_reserved("beta", alpha, gamma)
    party.expect("rebalance_started who=gamma cause=member_joined", "rebalance_completed")
    began, *_ = party.events("rebalance_started")
    *_, ended = party.events("rebalance_completed")
    took_ms = ended.at_ms - began.at_ms
    held = party.held_by("beta")
    party.begin(alpha, gamma)
    party.took_over(party.join("beta"), held)
    party.expect("member_replaced who=beta quick=true", NO_REBALANCE)
    party.nobody()
    if took_ms > AT_ONCE_MS:
        raise UnmetError(f"every partition is owned or reserved after {took_ms} ms")


@check("12", "no rebalance waits for a seat", *CONSUMERS)
def _no_wait(party: Party) -> None:
    _with_newcomer(party)
    party.expect("rebalance_joined ended_by=all_joined missing=none")
    [joined, *_] = party.events("rebalance_joined")
    if joined.fields["duration_ms"] > AT_ONCE_MS:
        raise UnmetError(f"all had joined after {joined.fields['duration_ms']} ms")
