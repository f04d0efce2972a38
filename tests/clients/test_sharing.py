"""Dynamic members: they share a topic, one leaves, one is killed, and nothing is lost."""

from tests.clients.scene import Group, consumed


def test_three_consumers_share_six_partitions_and_consume_everything_once(group: Group) -> None:
    members = group.settled(3)
    sent = group.send()
    group.await_records(sent, *members)
    assert consumed(*members) == sorted(sent)
    assert [len(member.ask("assignment")) for member in members] == [2, 2, 2]


def test_a_closed_consumer_leaves_at_once_and_the_others_go_on(group: Group) -> None:
    first, second, leaver = members = group.settled(3)
    before = group.send()
    group.await_records(before, *members)
    group.commit(*members)
    leaver.ask("close")
    group.settle(first, second)
    after = group.send()
    group.await_records(after, first, second)
    assert consumed(*members) == sorted(before + after)
    assert len(group.describe()["members"]) == 2


def test_the_others_take_over_from_a_killed_consumer_when_its_session_ends(group: Group) -> None:
    first, second, victim = members = group.settled(3, session_ms=3_000)
    before = group.send()
    group.await_records(before, *members)
    group.commit(*members)
    orphans = {number for _, number in victim.assigned or ()}
    victim.kill()
    after = group.send()
    group.settle(first, second)
    group.await_records(after, first, second)
    taken = [record for record in consumed(first, second) if record[1] in orphans]
    assert taken == sorted(record for record in after if record[1] in orphans)
