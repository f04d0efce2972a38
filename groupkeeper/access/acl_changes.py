"""Creates and deletes ACLs: durable in the catalog first, then in force.

Source: Kafka's `AclControlManager`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from groupkeeper.access.acls import Acl, AclFilter, PatternKind, Permission
from groupkeeper.access.authorizer import Authorizer
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.topics.catalog import AccessChange, Catalog
from groupkeeper.topics.slices import Pace, each
from groupkeeper.turns import Slices, Turns

MAX_ACLS: Final = 200_000
"""How many ACLs a server keeps, with some 1.6 kB of memory each."""
MAX_CHANGES: Final = 10_000
"""How many ACLs one request may create or delete, as in Kafka."""


class TooManyAclsError(Exception):
    """Raised for a change that would exceed a limit; the message is for the client."""


class AclChanges:
    """Changes the ACLs of a server, one request at a time."""

    def __init__(
        self, catalog: Catalog, authorizer: Authorizer, wall_ms: Callable[[], int], turns: Turns
    ) -> None:
        self._catalog = catalog
        self._authorizer = authorizer
        self._wall_ms = wall_ms
        self._turns = turns
        self._changing = asyncio.Lock()

    def found(self, wanted: AclFilter) -> Slices[list[Acl]]:
        """Return the ACLs that a filter matches, in slices."""
        acls = self._authorizer.acls
        if (one := _only(wanted)) is not None:
            return [one] if one in acls else []
        found, pace = [], Pace()
        for acl in list(acls):
            if wanted.matches(acl):
                found.append(acl)
            if pace.spent():
                yield
        return found

    async def create(self, acls: Iterable[Acl]) -> list[Acl]:
        """Create valid ACLs, and return those that are new. Raises TooManyAclsError and
        StorageError: nothing has changed then.
        """
        async with self._changing:
            known = self._authorizer.acls
            new = [acl for acl in dict.fromkeys(acls) if acl not in known]
            if len(new) > MAX_CHANGES:
                raise TooManyAclsError(f"More than {MAX_CHANGES} ACLs in a single request.")
            if len(new) + len(known) > MAX_ACLS:
                raise TooManyAclsError(f"There may be {MAX_ACLS} ACLs, and no more: delete some.")
            stored = await self._turns.run(each(new, _stored))
            await self._catalog.change_access(stored, self._wall_ms())
            await self._turns.run(each(new, self._authorizer.add))
        return new

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete the ACLs that match, and return them by filter. Raises TooManyAclsError and
        StorageError: nothing has changed then.
        """
        async with self._changing:
            found = [await self._turns.run(self.found(each)) for each in filters]
            gone = list(dict.fromkeys(acl for some in found for acl in some))
            if len(gone) > MAX_CHANGES:
                raise TooManyAclsError(
                    f"Cannot remove more than {MAX_CHANGES} acls in a single delete operation."
                )
            removed = await self._turns.run(each(gone, _removed))
            await self._catalog.change_access(removed, self._wall_ms())
            await self._turns.run(each(gone, self._authorizer.remove))
        return found


def _stored(acl: Acl) -> AccessChange:
    return acl.key, acl.stored()


def _removed(acl: Acl) -> AccessChange:
    return acl.key, None


def _only(wanted: AclFilter) -> Acl | None:
    """Return the only ACL that can match, or None."""
    is_definite = (
        wanted.resource != ResourceKind.ANY
        and wanted.pattern in (PatternKind.LITERAL, PatternKind.PREFIXED)
        and wanted.operation != Operation.ANY
        and wanted.permission != Permission.ANY
    )
    name, principal, host = wanted.name, wanted.principal, wanted.host
    if not is_definite or name is None or principal is None or host is None:
        return None
    codes = wanted.operation, wanted.permission
    return Acl(wanted.resource, name, wanted.pattern, principal, host, *codes)
