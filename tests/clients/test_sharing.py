"""Dynamic members: they share a topic, one leaves, one is killed, and nothing is lost."""

from tests.clients.libraries import LIBRARIES
from tests.clients.process import Worker
from tests.clients.scene import Group, Workers, consumed


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


def test_what_was_committed_by_the_way_is_where_the_next_one_goes_on(group: Group) -> None:
    (first,) = group.settled(1, auto_commit=True)
    before = group.send()
    group.await_records(before, first)
    first.ask("close")
    (second,) = group.settled(1, auto_commit=True)
    after = group.send()
    group.await_records(after, second)
    assert consumed(second) == sorted(after)


def test_members_of_all_libraries_share_one_group(workers: Workers, observer: Worker) -> None:
    usable = [library for library in LIBRARIES if not library.unusable]
    group = Group(usable[0], workers, observer)
    members = [group.join(library=library) for library in usable]
    group.settle(*members)
    sent = group.send()
    group.await_records(sent, *members)
    group.commit(*members)
    assert consumed(*members) == sorted(sent)
    offsets = observer.ask("group_offsets", group=group.name)
    assert offsets == [[topic, number, 10] for topic, number in sorted(group.partitions)]
