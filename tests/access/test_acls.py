"""What ACLs allow and deny: the rules of Kafka's StandardAuthorizer."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.access.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    PatternKind,
    Permission,
    acl_of,
    refusal_of,
    stored_acls,
)
from groupkeeper.access.authorizer import Authorizer, authorizer_of
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from tests.support.slices import counted, whole

OP = Operation
TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
LITERAL, PREFIXED = PatternKind.LITERAL, PatternKind.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
BOB, HOST = "User:bob", "10.0.0.1"


def acl(
    operation: Operation = OP.READ,
    name: str = "orders",
    permission: Permission = ALLOW,
    principal: str = BOB,
    host: str = "*",
    pattern: PatternKind = LITERAL,
    kind: ResourceKind = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def allows(
    acls: list[Acl],
    operation: Operation = OP.READ,
    name: str = "orders",
    principal: str = BOB,
    host: str = HOST,
    kind: ResourceKind = TOPIC,
    **settings: Any,
) -> bool:
    authorizer = Authorizer(**settings)
    for each in acls:
        authorizer.add(each)
    return authorizer.allows(principal, host, operation, kind, name)


# -- which ACLs apply ------------------------------------------------------------------------------


def test_nothing_is_allowed_without_an_acl() -> None:
    assert not allows([])
    assert allows([acl()])


def test_a_literal_name_is_that_resource_only() -> None:
    assert not allows([acl()], name="orders2")
    assert not allows([acl()], name="order")
    assert not allows([acl()], kind=GROUP)


def test_a_star_is_every_resource_of_the_kind() -> None:
    assert allows([acl(name="*")])
    assert not allows([acl(name="*")], kind=GROUP)


def test_a_prefix_is_every_name_that_begins_with_it() -> None:
    prefixed = [acl(name="ord", pattern=PREFIXED)]
    assert allows(prefixed) and allows(prefixed, name="ord")
    assert not allows(prefixed, name="or") and not allows(prefixed, name="oxd")


def test_a_star_as_a_prefix_is_a_character() -> None:
    assert not allows([acl(name="*", pattern=PREFIXED)])
    assert allows([acl(name="*", pattern=PREFIXED)], name="*x")


def test_several_prefixes_of_a_name_apply() -> None:
    names = ("o", "orde", "orders", "ordinary", "p", "orders-")
    prefixes = [acl(OP.WRITE, name=name, pattern=PREFIXED) for name in names]
    for name in ("o", "orde", "orders"):
        assert allows([*prefixes, acl(name=name, pattern=PREFIXED)])
    for name in ("ordinary", "p", "orders-"):
        assert not allows([*prefixes, acl(name=name, pattern=PREFIXED)])


def test_a_host_is_an_address_or_every_one() -> None:
    assert allows([acl(host=HOST)]) and allows([acl(host=HOST)], host=f"/{HOST}")
    assert not allows([acl(host="10.0.0.2")])


@pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1"])
def test_an_address_of_ipv6_may_be_written_in_several_ways(written: str) -> None:
    assert allows([acl(host=written)], host="/::1")
    assert not allows([acl(host=written)], host="/::2")
    assert allows([acl(host="1.2.3.4")], host="/::ffff:1.2.3.4")
    assert not allows([acl(host="no:address")], host="/::1")


def test_a_principal_is_one_or_every_one() -> None:
    assert not allows([acl(principal="User:alice")])
    assert allows([acl(principal="User:*")])
    assert not allows([acl(principal="Group:*")])


def test_without_a_login_the_principal_is_anonymous() -> None:
    assert allows([acl(principal="User:ANONYMOUS")], principal="")


# -- what they mean --------------------------------------------------------------------------------


def test_deny_wins() -> None:
    both = [acl(), acl(permission=DENY)]
    assert not allows(both) and not allows(both[::-1])
    assert not allows([acl(), acl(name="o", pattern=PREFIXED, permission=DENY, principal="User:*")])
    assert not allows([acl(), acl(name="*", permission=DENY, host=HOST)])


def test_all_is_every_operation() -> None:
    assert allows([acl(OP.ALL)], OP.ALTER_CONFIGS)
    assert not allows([acl(OP.READ), acl(OP.ALL, permission=DENY)])


@pytest.mark.parametrize("operation", [OP.READ, OP.WRITE, OP.DELETE, OP.ALTER, OP.DESCRIBE])
def test_who_may_use_a_resource_may_describe_it(operation: Operation) -> None:
    assert allows([acl(operation)], OP.DESCRIBE)


@pytest.mark.parametrize("operation", [OP.CREATE, OP.ALTER_CONFIGS, OP.DESCRIBE_CONFIGS])
def test_other_rights_are_none_to_describe(operation: Operation) -> None:
    assert not allows([acl(operation)], OP.DESCRIBE)


def test_who_may_alter_configs_may_describe_them() -> None:
    assert allows([acl(OP.ALTER_CONFIGS)], OP.DESCRIBE_CONFIGS)
    assert not allows([acl(OP.ALTER)], OP.DESCRIBE_CONFIGS)


def test_who_is_denied_to_read_may_describe() -> None:
    acls = [acl(OP.DESCRIBE), acl(OP.READ, permission=DENY)]
    assert allows(acls, OP.DESCRIBE) and not allows(acls, OP.READ)


def test_super_users_may_do_everything() -> None:
    denied = [acl(permission=DENY, principal="User:*")]
    assert allows(denied, super_users=[BOB])
    assert not allows(denied, super_users=["User:alice"])


def test_without_any_acl_on_a_resource_a_setting_decides() -> None:
    assert allows([], allow_if_no_acl=True)
    assert allows([acl(kind=GROUP), acl(name="other")], allow_if_no_acl=True)
    for other in (acl(OP.WRITE), acl(principal="User:alice"), acl(name="*", host="1.1.1.1")):
        assert not allows([other], allow_if_no_acl=True)


# -- changes ---------------------------------------------------------------------------------------


def test_a_change_counts_at_once_and_has_a_number() -> None:
    authorizer = Authorizer()
    numbers = [authorizer.number]
    prefixed = acl(name="o", pattern=PREFIXED)
    for change, one in (
        (authorizer.add, acl()),
        (authorizer.add, prefixed),
        (authorizer.remove, acl()),
        (authorizer.remove, prefixed),
    ):
        change(one)
        numbers.append(authorizer.number)
        expected = len(numbers) < 5
        assert authorizer.allows(BOB, HOST, OP.READ, TOPIC, "orders") is expected
    assert len({*numbers}) == len(numbers)


def test_what_changes_nothing_has_no_number() -> None:
    authorizer = Authorizer()
    authorizer.add(acl())
    number = authorizer.number
    authorizer.add(acl())
    authorizer.remove(acl(OP.WRITE))
    assert authorizer.number == number and list(authorizer.acls) == [acl()]


def test_what_was_removed_leaves_nothing_behind() -> None:
    some = [acl(), acl(name="o", pattern=PREFIXED), acl(name="or", pattern=PREFIXED)]
    authorizer = authorizer_of(None, allow_if_no_acl=True, acls=some)
    for each in some:
        authorizer.remove(each)
    assert authorizer.allows(BOB, HOST, OP.READ, TOPIC, "orders")  # no ACL at all


# -- against a naive model -------------------------------------------------------------------------

NAMES = st.sampled_from(["", "a", "ab", "abc", "abd", "ac", "b", "ba", "*"])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES.filter(bool),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:a", "User:b", "User:*"]),
    st.sampled_from(["*", "1.1.1.1"]),
    st.sampled_from([each for each in OP if each > OP.ANY]),
    st.sampled_from([ALLOW, DENY]),
)
IMPLY = {
    OP.DESCRIBE: {OP.DESCRIBE, OP.READ, OP.WRITE, OP.DELETE, OP.ALTER},
    OP.DESCRIBE_CONFIGS: {OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS},
}


def applies(one: Acl, name: str) -> bool:
    if one.pattern == PREFIXED:
        return name.startswith(one.name)
    return one.name in (name, "*")


def naive(acls: set[Acl], principal: str, host: str, operation: Operation, name: str) -> bool:
    """As one reads the rules: every ACL, one by one."""
    there = [one for one in acls if one.resource == TOPIC and applies(one, name)]
    mine = [
        one for one in there if one.principal in (principal, "User:*") and one.host in (host, "*")
    ]
    if any(o.permission == DENY and o.operation in (operation, OP.ALL) for o in mine):
        return False
    implying = IMPLY.get(operation, {operation})
    if any(o.permission == ALLOW and o.operation in {OP.ALL, *implying} for o in mine):
        return True
    return not there


@given(
    st.lists(st.tuples(st.booleans(), ACLS), max_size=30),
    st.sampled_from(["User:a", "User:c"]),
    st.sampled_from(["1.1.1.1", "2.2.2.2"]),
    st.sampled_from([each for each in OP if each > OP.ALL]),
    NAMES,
)
def test_decisions_are_those_of_a_naive_model(
    changes: list[tuple[bool, Acl]], principal: str, host: str, operation: Operation, name: str
) -> None:
    authorizer, acls = Authorizer(allow_if_no_acl=True), set[Acl]()
    for added, one in changes:
        (authorizer.add if added else authorizer.remove)(one)
        (acls.add if added else acls.discard)(one)
        decided = authorizer.allows(principal, host, operation, TOPIC, name)
        assert decided is naive(acls, principal, host, operation, name)


# -- any resource of a kind (KIP-679) --------------------------------------------------------------


def may_any(*acls: Acl, **settings: Any) -> bool:
    authorizer = Authorizer(**settings)
    for each in acls:
        authorizer.add(each)
    result: bool = whole(authorizer.may_any(authorizer.keys_of(BOB, HOST), OP.WRITE, TOPIC))
    return result


def test_a_right_on_any_topic_is_one_on_some_topic() -> None:
    assert not may_any()
    assert may_any(super_users=[BOB])
    assert may_any(acl(OP.WRITE)) and may_any(acl(OP.ALL)) and may_any(acl(OP.WRITE, "*"))
    assert not may_any(acl(OP.READ)) and not may_any(acl(OP.WRITE, principal="User:alice"))
    assert not may_any(acl(OP.WRITE, host="1.1.1.1")) and not may_any(acl(OP.WRITE, kind=GROUP))


def test_many_resources_are_gone_through_once_after_each_change() -> None:
    authorizer = authorizer_of(
        None, allow_if_no_acl=False, acls=[acl(OP.READ, f"t{at}") for at in range(1_000)]
    )
    keys = authorizer.keys_of(BOB, HOST)

    def asked() -> tuple[bool, int]:
        return counted(authorizer.may_any(keys, OP.WRITE, TOPIC))

    assert asked() == (False, 6) and asked() == (False, 1)
    authorizer.add(acl(OP.WRITE, "t7"))
    assert asked()[0] and asked() == (True, 1)
    authorizer.remove(acl(OP.WRITE, "t7"))
    assert asked() == (False, 6)


def test_a_right_that_is_denied_is_none() -> None:
    deny = acl(OP.WRITE, permission=DENY)
    assert not may_any(acl(OP.WRITE), deny)
    assert may_any(acl(OP.WRITE, "other"), deny)
    assert not may_any(acl(OP.WRITE), acl(OP.ALL, "*", DENY))
    assert not may_any(acl(OP.WRITE), acl(OP.ALL, "ord", DENY, pattern=PREFIXED))
    assert not may_any(
        acl(OP.WRITE, "ord", pattern=PREFIXED), acl(OP.ALL, "o", DENY, pattern=PREFIXED)
    )
    # A prefix has other names than the one that is denied.
    assert may_any(acl(OP.WRITE, "orders", pattern=PREFIXED), deny)


# -- operations (KIP-430) --------------------------------------------------------------------------


def test_operations_are_bits() -> None:
    authorizer = authorizer_of(None, allow_if_no_acl=False, acls=[acl(OP.READ), acl(OP.CREATE)])
    keys = authorizer.keys_of(BOB, HOST)
    expected = sum(1 << each for each in (OP.READ, OP.CREATE, OP.DESCRIBE))
    assert authorizer.operations(keys, TOPIC, "orders") == expected


# -- stored ----------------------------------------------------------------------------------------


def test_an_acl_is_a_value_of_the_catalog() -> None:
    one = acl(OP.DESCRIBE_CONFIGS, 'a"\n', DENY, pattern=PREFIXED)
    assert acl_of(one.stored()) == one
    assert one.key.startswith("acl:") and one.key != acl().key
    assert stored_acls({"user:bob": {}, one.key: one.stored()}) == [one]


def test_super_users_are_principals() -> None:
    made = authorizer_of(" User:a;User:b:c ;", allow_if_no_acl=False, acls=())
    assert made.allows("User:b:c", HOST, OP.READ, TOPIC, "t")
    with pytest.raises(ValueError, match="'bob' is not Type:name"):
        authorizer_of("bob", allow_if_no_acl=False, acls=())


# -- filters ---------------------------------------------------------------------------------------


def matching(name: str | None, pattern: int, **more: Any) -> list[str]:
    anything: dict[str, Any] = {
        "resource": ResourceKind.ANY,
        "principal": None,
        "host": None,
        "operation": OP.ANY,
        "permission": Permission.ANY,
    }
    wanted = AclFilter(name=name, pattern=pattern, **{**anything, **more})
    return [f"{PatternKind(a.pattern).name} {a.name}" for a in some_acls() if wanted.matches(a)]


def some_acls() -> Iterator[Acl]:
    for pattern, name in ((LITERAL, "abc"), (LITERAL, "*"), (PREFIXED, "ab"), (PREFIXED, "x")):
        yield acl(name=name, pattern=pattern)


def test_a_filter_takes_names_as_its_pattern_says() -> None:
    assert matching(None, PatternKind.ANY) == [
        "LITERAL abc",
        "LITERAL *",
        "PREFIXED ab",
        "PREFIXED x",
    ]
    assert matching("abc", PatternKind.ANY) == ["LITERAL abc"]
    assert matching("abc", PatternKind.MATCH) == ["LITERAL abc", "LITERAL *", "PREFIXED ab"]
    assert matching("abc", LITERAL) == ["LITERAL abc"]
    assert matching("ab", PREFIXED) == ["PREFIXED ab"]
    assert matching("ab", PatternKind.ANY) == ["PREFIXED ab"]


def test_a_filter_takes_the_rest_as_it_is() -> None:
    for wanted in (
        {"resource": GROUP},
        {"principal": "User:alice"},
        {"host": "1.1.1.1"},
        {"operation": OP.WRITE},
        {"permission": DENY},
    ):
        assert matching(None, PatternKind.ANY, **wanted) == []
    same = {"resource": TOPIC, "principal": BOB, "host": "*", "operation": OP.READ}
    assert len(matching(None, PatternKind.ANY, **same, permission=ALLOW)) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": CLUSTER}, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"kind": ResourceKind.ANY}, "Invalid resourceType ANY"),
        ({"kind": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern": PatternKind.MATCH}, "Invalid patternType MATCH"),
        ({"operation": OP.ANY}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
    ],
)
def test_what_is_no_acl_is_refused_in_kafkas_words(change: dict[str, Any], words: str) -> None:
    assert refusal_of(acl(**change)) == words
    assert refusal_of(acl()) is None
