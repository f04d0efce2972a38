"""Asks the authorizer for a client's rights, and counts and logs what is denied.

Source: Kafka's `AuthHelper`; the audit log of StandardAuthorizer.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from groupkeeper.access.acls import CLUSTER_NAME
from groupkeeper.access.authorizer import Authorizer
from groupkeeper.coordinator.caller import Caller, Peer, known_as
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.turns import Slices

LINE_S: Final = 1.0
"""Minimum interval between two lines about denials of one address."""

_log = Logger("access")


class Rights:
    """The authorizer of a server, and what it denied."""

    def __init__(
        self,
        authorizer: Authorizer,
        denied: Counter[tuple[str, ...]] | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`denied`: counts denials by API and kind of resource."""
        self.authorizer = authorizer
        self._denied = Counter[tuple[str, ...]]() if denied is None else denied
        self._seldom = Seldom(seconds, LINE_S)

    def of(self, caller: Caller, api: str) -> "AskingClient":
        return AskingClient(self, caller.peer, api)

    def tell(
        self, peer: Peer, api: str, operation: Operation, resource: ResourceKind, name: str
    ) -> None:
        """Count a denial, and log it unless the last line about the address is too recent."""
        self._denied[api, resource.name] += 1
        if times := self._seldom.due(peer.host):
            what = {"operation": operation.name, "resource": f"{resource.name} {name!r}"}
            who = {
                "principal": known_as(peer.principal),
                "client": peer.host,
                "client_id": peer.client_id,
            }
            _log.warning("denied", **who, api=api, **what, times=times)


class AskingClient:
    """The sender of one request."""

    __slots__ = ("_api", "_keys", "_peer", "_rights")

    def __init__(self, rights: Rights, peer: Peer, api: str) -> None:
        self._rights = rights
        self._peer = peer
        self._api = api
        self._keys = rights.authorizer.keys_of(peer.principal, peer.host)

    def may(self, operation: Operation, resource: ResourceKind, name: str) -> bool:
        """Return whether the client has a right. A lack is not told: nothing was refused."""
        return self._rights.authorizer.may(self._keys, operation, resource, name)

    def has(self, operation: Operation, resource: ResourceKind, name: str) -> bool:
        """Return whether the client has a right that it needs, and tell if it has not."""
        if self._rights.authorizer.may(self._keys, operation, resource, name):
            return True
        self._rights.tell(self._peer, self._api, operation, resource, name)
        return False

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceKind.CLUSTER, CLUSTER_NAME)

    def has_on_cluster(self, operation: Operation) -> bool:
        return self.has(operation, ResourceKind.CLUSTER, CLUSTER_NAME)

    def may_any(self, operation: Operation, resource: ResourceKind) -> Slices[bool]:
        return self._rights.authorizer.may_any(self._keys, operation, resource)

    def operations(self, resource: ResourceKind, name: str) -> int:
        """Return what the client may do to a resource, as bits (KIP-430)."""
        return self._rights.authorizer.operations(self._keys, resource, name)
