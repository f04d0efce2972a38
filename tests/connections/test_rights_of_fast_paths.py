"""A repeated heartbeat or commit does not outlive the right to it."""

from collections.abc import Callable

import pytest

from groupkeeper.access.acls import Acl, PatternKind, Permission
from groupkeeper.access.authorizer import Authorizer
from groupkeeper.coordinator.partition import Partition
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from tests.support.served import Served, settle

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
GROUP_DENIED, TOPIC_DENIED = 30, 29


def right(operation: Operation, kind: ResourceKind, name: str) -> Acl:
    pattern, permission = PatternKind.LITERAL, Permission.ALLOW
    return Acl(kind, name, pattern, "User:ANONYMOUS", "*", operation, permission)


READ_GROUP = right(Operation.READ, ResourceKind.GROUP, "g")
READ_TOPIC = right(Operation.READ, ResourceKind.TOPIC, "orders")


@pytest.fixture
def guarded(serve: Callable[..., Served]) -> Served:
    served = serve(AUTHORIZER, "allow.everyone.if.no.acl.found=true")
    for acl in (READ_GROUP, READ_TOPIC):
        authorizer_of(served).add(acl)
    return served


def authorizer_of(served: Served) -> Authorizer:
    rights = served.server._rights
    assert rights is not None
    return rights.authorizer


def test_a_member_is_stopped_at_its_next_beat(
    guarded: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = guarded.client()
    member_id, generation = settle(client)
    quick = 0

    def counted(self: Partition, *args: object, beat: Callable[..., bool] = Partition.beat) -> bool:
        nonlocal quick
        quick += 1
        return beat(self, *args)

    monkeypatch.setattr(Partition, "beat", counted)
    for _ in range(10):
        guarded.advance(0.1)
        assert client.beat(member_id, generation) == 0
    assert quick >= 8, "beats take the fast path, with an authorizer, too"
    authorizer_of(guarded).remove(READ_GROUP)
    authorizer_of(guarded).add(right(Operation.READ, ResourceKind.GROUP, "h"))
    authorizer_of(guarded).add(right(Operation.DESCRIBE, ResourceKind.GROUP, "g"))
    guarded.advance(0.1)
    assert client.beat(member_id, generation) == GROUP_DENIED


def test_another_change_costs_one_decision(guarded: Served) -> None:
    client = guarded.client()
    member_id, generation = settle(client)
    for name in ("x", "y"):
        assert client.beat(member_id, generation) == 0
        authorizer_of(guarded).add(right(Operation.READ, ResourceKind.GROUP, name))
    assert client.beat(member_id, generation) == 0


@pytest.mark.parametrize(
    ("revoked", "error"), [(READ_GROUP, GROUP_DENIED), (READ_TOPIC, TOPIC_DENIED)]
)
def test_a_commit_is_refused_after_its_right_is_revoked(
    guarded: Served, revoked: Acl, error: int
) -> None:
    client = guarded.client()
    for offset in range(5):
        assert client.commit(offset) == 0
    authorizer_of(guarded).remove(revoked)
    authorizer_of(guarded).add(revoked._replace(operation=Operation.DESCRIBE))
    assert client.commit(5) == error
    authorizer_of(guarded).add(revoked)
    assert client.commit(6) == 0


def test_a_right_that_is_revoked_while_a_commit_waits_ends_its_fast_path(guarded: Served) -> None:
    client = guarded.client()
    client.pipe.write(client.commit_frame(1))
    guarded.advance(0.0003)  # it is decided, and waits for the disk
    authorizer_of(guarded).add(READ_GROUP._replace(permission=Permission.DENY))
    assert client.committed() == 0
    assert client.commit(2) == GROUP_DENIED
