"""DescribeAcls, CreateAcls and DeleteAcls; what they answer is compared with Kafka's in
test_rights.py.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from groupkeeper.access import acl_changes
from groupkeeper.access.acls import Acl
from groupkeeper.apis import acls
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.guarded import BOB, authorizer_of, client_of, create_acls_request, guarded, right
from tests.support.served import Client, Lines, Served

POLICY_VIOLATION, SECURITY_DISABLED, STORAGE_ERROR = 44, 54, 56
OP = Operation
READ = right(Operation.READ, ResourceKind.GROUP, "g")
WRITE = right(Operation.WRITE, ResourceKind.TOPIC, "orders")
ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def create(client: Client, *acls: Acl) -> list[int]:
    return [each.error_code for each in client.call(3, create_acls_request(acls)).results]


def described(client: Client) -> set[tuple[int, str, str, int]]:
    answer = client.call(3, DescribeAclsRequest(**ANY))
    return {
        (each.resource_type, each.resource_name, acl.principal, acl.operation)
        for each in answer.resources
        for acl in each.acls
    }


def delete(client: Client, **given: Any) -> list[Any]:
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**(ANY | given))])
    [result] = client.call(3, request).filter_results
    assert not result.error_code, result
    return list(result.matching_acls)


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return guarded(serve)


def test_a_change_counts_for_the_next_request(served: Served) -> None:
    admin, bob = served.client(), client_of(served)
    assert bob.join().error_code == 30
    assert create(admin, READ) == [0]
    assert bob.join().error_code == 0
    assert len(delete(admin, resource_name_filter="g")) == 1
    assert bob.join().error_code == 30


def test_acls_are_there_after_every_kind_of_end(served: Served) -> None:
    assert create(served.client(), READ, WRITE) == [0, 0]
    expected = described(served.client())
    assert len(expected) == 2
    served.restart()
    assert described(served.client()) == expected
    served.cut_power()
    assert described(served.client()) == expected
    delete(served.client(), resource_type_filter=2)
    served.restart()
    assert described(served.client()) == {(3, "g", BOB, 3)}


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_keeps_what_was_acknowledged_and_nothing_half(served: Served, seed: int) -> None:
    """Each request creates two ACLs, or deletes those of an earlier one."""
    chance, client = Random(seed), served.client()
    answered: dict[int, bool] = {}
    """By number of the pair: whether it is there."""
    asked = dict(answered)
    for number in range(40):
        pair = [READ._replace(name=f"g{number}", operation=each) for each in (OP.READ, OP.DELETE)]
        client.send(3, create_acls_request(pair))
        asked = answered | {number: True}
        if chance.random() < 0.2:
            served.advance(chance.random() / 1000)
            if client.frames:  # it was acknowledged just before
                answered = asked
            if chance.random() < 0.5:
                served.restart()
            else:
                served.cut_power(chance.choice(("lose", "keep", "tear")))
            client = served.client()
        else:
            assert {each.error_code for each in client.take().results} == {0}
            answered = asked
        there = [name for _, name, _, _ in sorted(described(client))]
        names = [f"g{each}" for each in answered]
        for name in {*names}:
            assert there.count(name) == 2, "an acknowledged change is lost"
        for name in {*there}:
            assert there.count(name) == 2, "half a change is there"
        answered = {int(name[1:]): True for name in there}


def test_an_acl_that_is_there_already_is_no_error(served: Served) -> None:
    assert create(served.client(), READ, READ) == [0, 0]
    number = authorizer_of(served).number
    assert create(served.client(), READ) == [0]
    assert authorizer_of(served).number == number


def test_a_valid_acl_is_created_beside_an_invalid_one(served: Served) -> None:
    assert create(served.client(), READ, WRITE._replace(name="")) == [0, 42]
    assert described(served.client()) == {(3, "g", BOB, 3)}


def test_a_disk_that_fails_changes_nothing(served: Served) -> None:
    admin = served.client()
    create(admin, READ)
    served.disk.capacity = 0
    assert create(admin, WRITE) == [STORAGE_ERROR]
    filters = [DeleteAclsFilter(**ANY)]
    [result] = admin.call(3, DeleteAclsRequest(filters=filters)).filter_results
    assert result.error_code == STORAGE_ERROR
    assert described(admin) == {(3, "g", BOB, 3)}


def test_limits_are_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = served.client()
    monkeypatch.setattr(acl_changes, "MAX_CHANGES", 2)
    many = [READ._replace(name=f"g{at}") for at in range(4)]
    answer = admin.call(3, create_acls_request(many[:3]))
    assert {each.error_code for each in answer.results} == {POLICY_VIOLATION}
    assert answer.results[0].error_message == "More than 2 ACLs in a single request."
    assert create(admin, *many[:2]) == [0, 0] and create(admin, many[2]) == [0]
    [result] = admin.call(3, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)])).filter_results
    assert result.error_code == POLICY_VIOLATION
    monkeypatch.setattr(acl_changes, "MAX_ACLS", 3)
    assert create(admin, many[3]) == [POLICY_VIOLATION]
    monkeypatch.setattr(acls, "MAX_FILTERS", 1)
    two = DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)] * 2)
    assert [each.error_code for each in admin.call(3, two).filter_results] == [42, 42]
    assert len(described(admin)) == 3


def test_many_acls_are_changed_and_described_in_slices(served: Served) -> None:
    admin = served.client()
    many = [READ._replace(name=f"g{at}") for at in range(5_000)]
    assert set(create(admin, *many)) == {0}
    assert len(described(admin)) == 5_000
    assert len(delete(admin)) == 5_000 and not described(admin)


def test_who_changed_what_is_one_line(served: Served, lines: Lines) -> None:
    create(served.client(), READ, WRITE)
    delete(served.client())
    created, deleted = (each for each in lines() if each["event"].startswith("acls "))
    assert (created["principal"], created["client"], created["count"]) == (
        "User:ANONYMOUS",
        "/127.0.0.1",
        2,
    )
    assert created["changes"].startswith("ALLOW READ to 'User:bob' from '*' on GROUP LITERAL 'g'; ")
    assert (deleted["event"], deleted["changes"]) == ("acls deleted", created["changes"])


def test_names_cannot_forge_lines(served: Served, lines: Lines) -> None:
    create(served.client(), READ._replace(principal='User:a"\n{"level": "x"}'))
    *_, line = lines()
    assert "\\n" in line["changes"]


def test_without_an_authorizer_there_are_no_acls(serve: Callable[..., Served]) -> None:
    client = serve().client()
    assert create(client, READ) == [SECURITY_DISABLED]
    [result] = client.call(3, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)])).filter_results
    assert (result.error_code, result.error_message) == (
        SECURITY_DISABLED,
        "No Authorizer is configured.",
    )
