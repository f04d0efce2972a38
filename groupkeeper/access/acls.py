"""Access control lists: what one says, which ones a filter matches, and how one is stored.

Codes are those of the wire. Source: Kafka's `AclBinding`, `AclBindingFilter`,
`ResourcePatternFilter`, `AclEntry` (operations of a resource), `AclControlManager`
(`validateNewAcl`, `validateFilter`).
"""

import json
from collections.abc import Mapping
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

from groupkeeper.protocol.acl_codes import Operation, ResourceKind

KEY_PREFIX: Final = "acl:"
"""Keys of ACLs in `Catalog.access` begin with it."""
WILDCARD: Final = "*"
"""As a literal name: every resource of the type. As a host: every host."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of the resource CLUSTER."""


class PatternKind(IntEnum):
    """The meaning of the name in an ACL, or in a filter."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In filters only: all ACLs that apply to a resource of that name."""
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_OP = Operation
OPERATIONS: Final[Mapping[ResourceKind, tuple[Operation, ...]]] = {
    ResourceKind.TOPIC: (
        *(_OP.READ, _OP.WRITE, _OP.CREATE, _OP.DESCRIBE, _OP.DELETE, _OP.ALTER),
        *(_OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    ),
    ResourceKind.GROUP: (
        *(_OP.READ, _OP.DESCRIBE, _OP.DELETE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    ),
    ResourceKind.CLUSTER: (
        *(_OP.CREATE, _OP.CLUSTER_ACTION, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
        *(_OP.IDEMPOTENT_WRITE, _OP.ALTER, _OP.DESCRIBE),
    ),
}
"""Operations of a kind that Metadata and its like tell clients about (KIP-430)."""


class Acl(NamedTuple):
    """One ACL: on resources of this name, a principal from a host may, or may not, do something."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def key(self) -> str:
        """Its key in `Catalog.access`: two equal ACLs have the same."""
        text = json.dumps(self, ensure_ascii=False).encode()
        return KEY_PREFIX + blake2b(text, digest_size=16).hexdigest()

    def stored(self) -> dict[str, object]:
        """Return its value in `Catalog.access`."""
        return {
            "resource": ResourceKind(self.resource).name,
            "name": self.name,
            "pattern": PatternKind(self.pattern).name,
            "principal": self.principal,
            "host": self.host,
            "operation": Operation(self.operation).name,
            "permission": Permission(self.permission).name,
        }

    def __str__(self) -> str:
        what = f"{Permission(self.permission).name} {Operation(self.operation).name}"
        where = f"{ResourceKind(self.resource).name} {PatternKind(self.pattern).name}"
        return f"{what} to {self.principal!r} from {self.host!r} on {where} {self.name!r}"


def acl_of(value: Mapping[str, object]) -> Acl:
    """Return the ACL of a value in `Catalog.access`. Raises KeyError for what is no ACL."""
    return Acl(
        ResourceKind[str(value["resource"])],
        str(value["name"]),
        PatternKind[str(value["pattern"])],
        str(value["principal"]),
        str(value["host"]),
        Operation[str(value["operation"])],
        Permission[str(value["permission"])],
    )


def stored_acls(access: Mapping[str, Mapping[str, object]]) -> list[Acl]:
    """Return the ACLs in `Catalog.access`, in the order of their creation."""
    return [acl_of(value) for key, value in access.items() if key.startswith(KEY_PREFIX)]


class AclFilter(NamedTuple):
    """Which ACLs are meant. None and ANY match everything."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource in (ResourceKind.ANY, acl.resource)
            and self.pattern in (PatternKind.ANY, PatternKind.MATCH, acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and (self.name is None or self._matches_name(self.name, acl))
        )

    def _matches_name(self, name: str, acl: Acl) -> bool:
        if name == acl.name:
            return True
        if self.pattern != PatternKind.MATCH:
            return False
        if acl.pattern == PatternKind.PREFIXED:
            return name.startswith(acl.name)
        return acl.name == WILDCARD

    @property
    def is_unknown(self) -> str | None:
        """Kafka's words for a filter with a code that it does not know, or None."""
        if _known(PatternKind, self.pattern) is None or _known(ResourceKind, self.resource) is None:
            return "Unknown patternFilter."
        if _known(Operation, self.operation) is None or _known(Permission, self.permission) is None:
            return "Unknown entryFilter."
        return None


def refusal_of(acl: Acl) -> str | None:
    """Return why an ACL cannot be created, in Kafka's words, or None. Codes may be any numbers."""
    resource = _known(ResourceKind, acl.resource)
    pattern = _known(PatternKind, acl.pattern)
    operation = _known(Operation, acl.operation)
    permission = _known(Permission, acl.permission)
    if resource is ResourceKind.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if resource in (None, ResourceKind.ANY):
        return f"Invalid resourceType {_name(resource)}"
    if pattern not in (PatternKind.LITERAL, PatternKind.PREFIXED):
        return f"Invalid patternType {_name(pattern)}"
    if operation in (None, Operation.ANY):
        return f"Invalid operation {_name(operation)}"
    if permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {_name(permission)}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return None


def _name(code: IntEnum | None) -> str:
    return "UNKNOWN" if code is None else code.name


_Kind = TypeVar("_Kind", bound=IntEnum)


def _known(kind: type[_Kind], code: int) -> _Kind | None:
    """Return the code as a member other than UNKNOWN, or None."""
    found = kind._value2member_map_.get(code)
    return kind(code) if found is not None and code else None
