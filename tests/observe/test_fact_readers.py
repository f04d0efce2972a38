"""Who is told what happened to groups, and when."""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    GroupCreated,
    GroupEmptied,
    GroupsLoaded,
    MemberRemoved,
    NotedFact,
    OffsetsCommitted,
    OffsetsReset,
)
from groupkeeper.observe.fact_readers import FACTS_IN_A_SLICE, FactReaders, Origin
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.turns import Turns
from tests.support.served import Served, groups_apart, settle

Lines = Callable[[], list[dict[str, Any]]]
HERE = Origin(7, 1)


def noted(*orders: int) -> list[NotedFact]:
    return [NotedFact(n, 0, 0, False, GroupCreated("g", 0, "Empty", 0, Who("m"))) for n in orders]


def readers(failures: Counter[tuple[str, str]] | None = None) -> FactReaders:
    return FactReaders(Turns(), Counter() if failures is None else failures)


def record_orders(told: list[int]) -> Callable[[Origin, NotedFact], None]:
    return lambda _, noted: told.append(noted.order)


# -- telling ---------------------------------------------------------------------------------------


async def test_every_reader_is_told_every_fact_in_order() -> None:
    first: list[int] = []
    second: list[int] = []
    facts = readers()
    facts.subscribe("first", record_orders(first))
    facts.subscribe("second", record_orders(second))
    facts.tell(HERE, noted(0, 1))
    facts.tell(HERE, noted(2))
    assert first == []
    await asyncio.sleep(0)
    assert first == second == [0, 1, 2]


async def test_a_reader_of_some_kinds_is_told_no_others() -> None:
    told: list[int] = []
    facts = readers()
    facts.subscribe("one", record_orders(told), {GroupEmptied})
    emptied = GroupEmptied("g", 1, "Empty", 1, Cause(CauseCode.MEMBER_LEFT))
    facts.tell(HERE, [*noted(0), NotedFact(1, 0, 0, True, emptied), *noted(2)])
    facts.flush()
    assert told == [1]


async def test_a_reader_is_told_where_a_fact_comes_from() -> None:
    told: list[Origin] = []
    facts = readers()
    facts.subscribe("one", lambda origin, _: told.append(origin))
    facts.tell(HERE, noted(0))
    facts.tell(Origin(8, 3), noted(0))
    facts.flush()
    assert told == [HERE, Origin(8, 3)]


async def test_a_reader_that_raises_misses_a_fact_and_costs_nobody_else_one(lines: Lines) -> None:
    def fail(_: Origin, noted: NotedFact) -> None:
        if noted.order == 1:
            raise RuntimeError("a bug")
        before.append(noted.order)

    before: list[int] = []
    behind: list[int] = []
    failures: Counter[tuple[str, str]] = Counter()
    facts = readers(failures)
    facts.subscribe("broken", fail)
    facts.subscribe("behind", record_orders(behind))
    facts.tell(HERE, noted(0, 1, 2))
    facts.flush()
    assert (before, behind) == ([0, 2], [0, 1, 2])
    assert failures == {("facts_not_read", "broken"): 1}
    [line] = lines()
    assert (line["event"], line["reader"], line["fact"]) == (
        "a fact was not read",
        "broken",
        "GroupCreated",
    )
    assert "a bug" in line["exception"]


async def test_what_takes_long_is_told_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.observe.fact_readers.TURN_S", 0.0)
    told: list[int] = []
    facts = readers()
    facts.subscribe("one", record_orders(told))
    count = 3 * FACTS_IN_A_SLICE + 5
    facts.tell(HERE, noted(*range(count)))
    seen = []
    while len(told) < count:
        await asyncio.sleep(0)
        seen.append(len(told))
    assert seen == [64, 128, 192, count]
    assert told == list(range(count))


# -- a whole server --------------------------------------------------------------------------------


def listen(served: Served) -> list[tuple[Origin, NotedFact]]:
    """What a reader is told from now on."""
    told: list[tuple[Origin, NotedFact]] = []
    served.server.readers.subscribe("test", lambda origin, noted: told.append((origin, noted)))
    return told


def fail_next(served: Served) -> None:
    """The next write of the journal fails."""
    served.disk.failures[served.disk.calls + 1] = OSError(errno.ENOSPC, "injected")


def test_nothing_that_was_lost_is_counted_or_logged(served: Served, lines: Lines) -> None:
    client = served.client()
    joined = client.join()
    fail_next(served)
    plan = {joined.member_id: b"plan"}
    synced = client.sync(joined.member_id, joined.generation_id, **plan)
    served.advance(0.1)
    assert synced.error_code == ErrorCode.NOT_COORDINATOR
    assert served.server.metrics.counts[("rebalances_completed",)] == 0
    assert "rebalance completed" not in [line["event"] for line in lines()]


def test_a_commit_that_was_lost_is_not_counted(served: Served) -> None:
    one, two = groups_apart(4)
    client = served.client()
    assert client.commit(1, one) == 0
    fail_next(served)
    assert client.commit(2, one) == ErrorCode.NOT_COORDINATOR
    served.settled()
    assert client.commit(3, two) == 0
    served.advance(0.1)
    assert served.server.metrics.counts[("offsets_committed",)] == 2


def test_what_is_told_is_durable(served: Served) -> None:
    syncs = served.syncs()
    durable: list[int] = []
    served.server.readers.subscribe("test", lambda *_: durable.append(served.syncs() - syncs))
    assert served.client().commit(1) == 0
    served.advance(0.1)
    assert durable == [1, 1, 1], "the group, its offset from outside, and the commit"


def test_a_reader_knows_partition_epoch_time_and_order(served: Served) -> None:
    driver = served.driver("g")
    told = listen(served)
    assert served.client().commit(1) == 0
    served.fail()
    served.settled()
    assert served.client().commit(2) == 0
    served.advance(0.1)
    kinds = [(type(each.fact), each.order) for _, each in told]
    first = told[0][0].leader_epoch
    assert kinds[0][0] is GroupCreated
    assert kinds[1:] == [
        (OffsetsReset, kinds[0][1] + 1),
        (OffsetsCommitted, kinds[0][1] + 2),
        (GroupsLoaded, 0),
        (OffsetsReset, 1),
        (OffsetsCommitted, 2),
    ]
    epochs = [origin.leader_epoch - first for origin, _ in told]
    assert epochs == [0, 0, 0, 1, 1, 1]
    assert {origin.partition for origin, _ in told} == {driver.index}
    assert served.log().last_epoch == first + 1
    assert all(each.wall - each.now == told[0][1].wall - told[0][1].now for _, each in told)


def test_a_reader_that_always_fails_changes_nothing_for_clients(
    served: Served, lines: Lines
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    served.server.readers.subscribe("broken", fail)
    client = served.client()
    member_id, generation = settle(client)
    assert client.commit(1, member_id=member_id, generation=generation) == 0
    served.advance(0.1)
    counts = served.server.metrics.counts
    assert counts[("offsets_committed",)] == counts[("rebalances_completed",)] == 1
    assert counts["facts_not_read", "broken"] >= 5
    assert set(served.states()) == {"active"}


def test_what_was_noted_last_is_told_before_the_server_ends(served: Served) -> None:
    told = listen(served)
    client = served.client()
    served.at_once({client: client.commit_frame(1)})
    served.stop()
    assert client.committed() == 0
    assert OffsetsCommitted in [type(noted.fact) for _, noted in told]


@pytest.mark.parametrize("connection", ["open", "closed"])
def test_a_silent_member_is_told_with_its_connection_and_its_heartbeats(
    served: Served, connection: str
) -> None:
    told = listen(served)
    client = served.client()
    hello = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0")
    client.call(3, hello)
    member_id, generation = settle(client, session_timeout_ms=10_000)
    for _ in range(3):  # the second and third repeat the first
        served.advance(2)
        assert client.beat(member_id, generation) == 0
    if connection == "closed":
        client.hang_up()
    served.advance(11)
    [removed] = [each.fact for _, each in told if isinstance(each.fact, MemberRemoved)]
    evidence = removed.cause.evidence
    assert evidence["connection"] == connection
    assert (evidence["heartbeats"], evidence["heartbeat_interval_ms"] // 100) == (3, 20)
    assert 10_000 <= evidence["silent_ms"] < 10_100
    assert (removed.who.software_name, removed.who.software_version) == ("librdkafka", "2.3.0")
