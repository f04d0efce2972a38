"""Servers in memory with an authorizer, and clients with a principal."""

from collections.abc import Callable, Iterable
from typing import Any

from groupkeeper.access.acls import CLUSTER_NAME, Acl, PatternKind, Permission
from groupkeeper.access.authorizer import Authorizer
from groupkeeper.connections.connection import Connection
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.served import Client, Served

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BOB = "User:bob"


def guarded(serve: Callable[..., Served], *assignments: str) -> Served:
    """A server whose administrator is anonymous, and everyone else may do nothing."""
    return serve(AUTHORIZER, "super.users=User:ANONYMOUS", *assignments)


def client_of(served: Served, principal: str = BOB) -> Client:
    """A client that has logged in."""
    client = served.client()
    served.advance(0.001)
    connection: Any = client.pipe.peer and client.pipe.peer.protocol
    assert isinstance(connection, Connection)
    connection.peer.principal = principal
    return client


def authorizer_of(served: Served) -> Authorizer:
    rights = served.server._rights
    assert rights is not None
    return rights.authorizer


def right(
    operation: Operation,
    kind: ResourceKind,
    name: str = CLUSTER_NAME,
    principal: str = BOB,
    pattern: PatternKind = PatternKind.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, principal, "*", operation, Permission.ALLOW)


def grant(served: Served, *acls: Acl) -> None:
    for acl in acls:
        authorizer_of(served).add(acl)


def create_acls_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    """A request that adds these."""
    rows = [
        AclCreation(
            resource_type=each.resource,
            resource_name=each.name,
            resource_pattern_type=each.pattern,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in acls
    ]
    return CreateAclsRequest(creations=rows)
