"""Static members: a restart moves nothing, and of two with one instance id the older is fenced."""

import pytest

from tests.clients.libraries import AIOKAFKA
from tests.clients.process import ClientError, Worker, wait_until
from tests.clients.scene import Group, Workers, consumed, moves

static = pytest.mark.needs("static members")


@pytest.fixture
def members(group: Group) -> dict[str, Worker]:
    """Three static members by instance id, settled; "one" is the leader: it was there first."""
    leader = group.join("one")
    wait_until(lambda: leader.assigned is not None, [leader])
    followers = {name: group.join(name) for name in ("two", "three")}
    everybody = {"one": leader} | followers
    group.settle(*everybody.values())
    return everybody


@static
@pytest.mark.parametrize("name", ["one", "two"], ids=["leader", "follower"])
def test_a_restarted_static_member_takes_its_partitions_back_and_nothing_else_moves(
    group: Group, members: dict[str, Worker], name: str
) -> None:
    before = group.send()
    group.await_records(before, *members.values())
    group.commit(*members.values())
    ids = group.describe()["instances"]
    old = members.pop(name)
    others = list(members.values())
    counted = moves(*others)

    old.kill()
    new = group.join(name)
    group.settle(new, *others)
    after = group.send()
    group.await_records(after, new, *others)

    assert new.assigned == old.assigned
    assert moves(*others) == counted
    assert consumed(old, new, *others) == sorted(before + after)
    now = group.describe()["instances"]
    assert now[name] != ids[name]
    assert now == ids | {name: now[name]}


def how_it_fails(fenced: Worker) -> str | None:
    """The error that its user gets to see: in a poll, or, with kafka-python 3, in a commit."""
    if "fencing in poll" in fenced.library.can:
        wait_until(lambda: fenced.failed is not None, [fenced])
        return fenced.failed
    with pytest.raises(ClientError) as raised:
        fenced.ask("commit")
    return raised.value.name


@pytest.mark.needs("fencing")
def test_the_older_of_two_processes_with_one_instance_id_is_fenced(group: Group) -> None:
    older, other = group.join("one"), group.join("other")
    group.settle(older, other)
    group.await_records(group.send(), older, other)
    counted = moves(other)

    newer = group.join("one")
    group.settle(newer, other)

    assert how_it_fails(older) in {"FencedInstanceId", "Fatal"}
    group.await_records(group.send(), newer, other)
    group.commit(newer, other)
    assert moves(other) == counted


def test_aiokafka_is_fenced_while_it_waits_in_a_join(workers: Workers, observer: Worker) -> None:
    """Its heartbeats carry no instance id: a fenced process hears of it from JoinGroup alone."""
    group = Group(AIOKAFKA, workers, observer)
    older, sleeper = group.join("one"), group.join()
    group.settle(older, sleeper)
    counted = moves(older)
    sleeper.stop()
    third = group.join()
    wait_until(lambda: moves(older) != counted, [older, third])
    newer = group.join("one")
    wait_until(lambda: older.failed == "Kafka", [older, newer, third])
    sleeper.go_on()
    group.settle(newer, sleeper, third)
