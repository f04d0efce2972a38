"""The server is killed with kill -9 and comes back: its clients go on as if nothing had been."""

from tests.clients.scene import PARTITIONS, Group, consumed, moves
from tests.support.process import Server


def test_members_go_on_without_a_rebalance_and_commits_are_read_back(
    own_group: Group, own_server: Server
) -> None:
    static = "static members" in own_group.library.can
    members = [own_group.join("one" if static else None), own_group.join()]
    own_group.settle(*members)
    before = own_group.send()
    own_group.await_records(before, *members)
    own_group.commit(*members)
    counted, described = moves(*members), own_group.describe()

    own_server.kill()
    own_server.start()
    own_group.change_observer()
    after = own_group.send()
    own_group.await_records(after, *members)

    assert consumed(*members) == sorted(before + after)
    assert moves(*members) == counted
    assert own_group.describe() == described
    partitions = sorted(own_group.partitions)
    assert members[1].ask("committed", partitions=partitions) == [10] * PARTITIONS
    own_group.commit(*members)
    assert members[1].ask("committed", partitions=partitions) == [20] * PARTITIONS


def test_a_group_that_nobody_is_in_keeps_its_commits(own_group: Group, own_server: Server) -> None:
    (member,) = own_group.settled(1)
    before = own_group.send()
    own_group.await_records(before, member)
    own_group.commit(member)
    member.ask("close")

    own_server.kill()
    own_server.start()
    own_group.change_observer()
    (new,) = own_group.settled(1)
    after = own_group.send()
    own_group.await_records(after, new)

    assert consumed(new) == sorted(after)
