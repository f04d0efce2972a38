"""Decides what a principal may do, with the rules of Kafka's StandardAuthorizer.

An ACL applies to a resource if its name is that of the resource, or `*`, or, if it is prefixed, a
prefix of it. Denied is what one ACL that applies denies; else allowed, what one allows: that
operation, or one that implies it. Without any ACL on the resource, a setting decides. Super users
may do everything.

All ACLs on resources of one name are kept together, as bits by principal and host: a decision looks
up a few keys, and a change touches one. Nothing is rebuilt.

Source: Kafka 4.1, `StandardAuthorizerData`; `Authorizer.authorizeByResourceType` (KIP-679).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, reduce
from itertools import chain
from operator import or_
from typing import Final

from groupkeeper.access.acls import OPERATIONS, WILDCARD, Acl, PatternKind, Permission
from groupkeeper.access.principal import parse_principal
from groupkeeper.coordinator.caller import known_as
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices

KAFKA_NAME: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of `authorizer.class.name`."""
ANYONE: Final = "User:*"
"""In an ACL: every principal, of whatever type."""

FOUND_MOST: Final = 1_000
"""How many results of `may_any` are kept."""

_DENIED: Final = 16
"""Bits of allowed operations are below, those of denied ones from here on."""
_LITERAL: Final = PatternKind.LITERAL.value

_IMPLYING: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operations that allow another one, too. Who is denied them is not denied the other."""


def _bits(*operations: Operation) -> int:
    return reduce(or_, (1 << each for each in operations))


_ALLOW: Final = [_bits(each, Operation.ALL, *_IMPLYING.get(each, ())) for each in Operation]
_DENY: Final = [_bits(each, Operation.ALL) << _DENIED for each in Operation]
"""By operation: the bits that decide about it."""

_Keys = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def _spellings(host: str) -> tuple[str, ...]:
    """Return an address as ACLs may have it: of IPv6 the short form, and the one of Java."""
    if ":" not in host:
        return (host,)
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return (host,)
    if address.ipv4_mapped:
        return (str(address.ipv4_mapped),)
    parts = (f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return str(address), ":".join(parts)


def _bit(acl: Acl) -> int:
    return 1 << (acl.operation + (_DENIED if acl.permission == Permission.DENY else 0))


_Masks = dict[tuple[str, str], int]
"""Bits of the ACLs on resources of one name, by principal and host."""


class _Names:
    """The ACLs of one kind of resource."""

    __slots__ = ("literal", "prefixed", "prefixes")

    def __init__(self) -> None:
        self.literal: dict[str, _Masks] = {}
        self.prefixed: dict[str, _Masks] = {}
        self.prefixes: list[str] = []
        """The keys of `prefixed`, in order."""

    def found(self, name: str) -> list[_Masks]:
        """Return the ACLs that apply to a resource of this name."""
        literal = self.literal
        found = [literal[each] for each in (name, WILDCARD) if each in literal]
        return found + self.found_by_prefix(name) if self.prefixes else found

    def found_by_prefix(self, name: str) -> list[_Masks]:
        """Return the prefixed ACLs that apply. A prefix of a name precedes it in the order: if the
        last one before it is none, no prefix is longer than what both have in common.
        """
        found, prefixes = [], self.prefixes
        while name and (at := bisect_right(prefixes, name)):
            last = prefixes[at - 1]
            if name.startswith(last):
                found.append(self.prefixed[last])
                name = last[:-1]
            else:
                name = name[: _common(name, last)]
        return found


def _common(one: str, other: str) -> int:
    """Return how many characters at the start are the same."""
    count = 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        count += 1
    return count


class Authorizer:
    """The ACLs in force, and what follows from them."""

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        """`super_users`: principals as text. `allow_if_no_acl`: of a resource without any ACL."""
        self.number = 0
        """Changes with every change: what was decided with another number may be outdated."""
        self.acls: dict[Acl, None] = {}
        """All ACLs, in the order of their creation."""
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._found_any: dict[tuple[_Keys, int, int], tuple[int, bool]] = {}
        """What `may_any` has found, and for which number."""
        self._kinds = {kind.value: _Names() for kind in ResourceKind}

    # -- changes -------------------------------------------------------------------------------

    def add(self, acl: Acl) -> None:
        """Put an ACL into force; one that is there already stays as it is."""
        if acl in self.acls:
            return
        self.acls[acl] = None
        kind = self._kinds[acl.resource]
        names = kind.literal if acl.pattern == _LITERAL else kind.prefixed
        masks = names.get(acl.name)
        if masks is None:
            masks = names[acl.name] = {}
            if acl.pattern != _LITERAL:
                insort(kind.prefixes, acl.name)
        key = acl.principal, acl.host
        masks[key] = masks.get(key, 0) | _bit(acl)
        self.number += 1

    def remove(self, acl: Acl) -> None:
        """Put an ACL out of force."""
        if acl not in self.acls:
            return
        del self.acls[acl]
        kind = self._kinds[acl.resource]
        names = kind.literal if acl.pattern == _LITERAL else kind.prefixed
        masks, key = names[acl.name], (acl.principal, acl.host)
        masks[key] &= ~_bit(acl)
        if not masks[key]:
            del masks[key]
        if not masks:
            del names[acl.name]
            if acl.pattern != _LITERAL:
                del kind.prefixes[bisect_left(kind.prefixes, acl.name)]
        self.number += 1

    # -- decisions -----------------------------------------------------------------------------

    def allows(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        """Return whether a principal may do something to a resource.

        `principal`: as text, empty for an anonymous one. `host`: an address as Java prints it, with
        or without `/` in front. `operation` and `resource`: codes.
        """
        return self.may(self.keys_of(principal, host), operation, resource, name)

    def keys_of(self, principal: str, host: str) -> _Keys:
        """Return the keys of a client for `may`; none for a super user."""
        who = known_as(principal)
        if who in self._super_users:
            return ()
        hosts = *_spellings(host.removeprefix("/")), WILDCARD
        return tuple([(each, where) for each in (who, ANYONE) for where in hosts])

    def may(self, keys: _Keys, operation: int, resource: int, name: str) -> bool:
        """The same as `allows`, of a client whose keys are known."""
        if not keys:
            return True
        mask = self._mask(keys, resource, name)
        if mask is None:
            return self._allow_if_no_acl
        return not mask & _DENY[operation] and bool(mask & _ALLOW[operation])

    def operations(self, keys: _Keys, resource: ResourceKind, name: str) -> int:
        """Return the operations that are allowed, as bits: bit n is the operation n (KIP-430)."""
        return sum(
            1 << each for each in OPERATIONS[resource] if self.may(keys, each, resource, name)
        )

    def may_any(self, keys: _Keys, operation: int, resource: int) -> Slices[bool]:
        """Return whether a client may do something to any resource of a kind (KIP-679).

        Goes through all of them, in slices, once after each change; changes meanwhile may count or
        not.
        """
        if not keys or self.may(keys, operation, resource, "hardcode"):
            return True
        asked, number = (keys, operation, resource), self.number
        if self._found_any.get(asked, (-1, False))[0] != number:
            found = yield from self._search(keys, operation, resource)
            if len(self._found_any) >= FOUND_MOST:
                self._found_any.clear()
            self._found_any[asked] = number, found
        return self._found_any[asked][1]

    def _search(self, keys: _Keys, operation: int, resource: int) -> Slices[bool]:
        kind, bits = self._kinds[resource], (1 << operation) | (1 << Operation.ALL)
        every = kind.literal.get(WILDCARD, {})
        if _together(every, keys) & bits << _DENIED:
            return False
        pace = Pace()
        for name, masks in chain(list(kind.prefixed.items()), list(kind.literal.items())):
            mask = _together(masks, keys)
            is_prefix = masks is kind.prefixed.get(name)
            if mask & bits and (is_prefix or not mask & bits << _DENIED):
                dominant = kind.found_by_prefix(name)
                if not any(_together(each, keys) & bits << _DENIED for each in dominant):
                    return True
            if pace.spent():
                yield
        return False

    def _mask(self, keys: _Keys, resource: int, name: str) -> int | None:
        """Return the bits of all ACLs that apply; None if the resource has no ACL."""
        found, mask = self._kinds[resource].found(name), 0
        for masks in found:
            for key in keys:
                if key in masks:
                    mask |= masks[key]
        return mask if found else None


def _together(masks: _Masks, keys: _Keys) -> int:
    mask = 0
    for key in keys:
        if key in masks:
            mask |= masks[key]
    return mask


def authorizer_of(
    super_users: str | None, *, allow_if_no_acl: bool, acls: Iterable[Acl]
) -> Authorizer:
    """Make the authorizer of a server. `super_users`: the setting, principals with `;` between.

    Raises ValueError with a message about that setting.
    """
    texts = (each.strip() for each in (super_users or "").split(";"))
    users = [str(parse_principal(each)) for each in texts if each]
    authorizer = Authorizer(users, allow_if_no_acl=allow_if_no_acl)
    for acl in acls:
        authorizer.add(acl)
    return authorizer
