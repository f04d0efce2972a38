"""The rights that a request needs: a vocabulary for the rows of `table.py`.

A row says which rights there are, and how they combine; the guards of `apis/rights` ask for them,
if there is an authorizer. Cheap to import, as every start does.
"""

from typing import NamedTuple

from groupkeeper.protocol.acl_codes import Operation, ResourceKind


class Right(NamedTuple):
    """An operation on one resource: the cluster, or the one that the request names."""

    operation: Operation
    resource: ResourceKind


class Each(NamedTuple):
    """An operation on the resource of each row of the request; without it, of each row of the
    response, which then only has the rows that the client may see.
    """

    operation: Operation
    resource: ResourceKind


class OnAny(NamedTuple):
    """An operation on any resource of a kind, no matter which (KIP-679)."""

    operation: Operation
    resource: ResourceKind


class AllOf(NamedTuple):
    """All of these. A right that fails refuses the request; a row of `Each`, the row."""

    parts: tuple["Need", ...]


class AnyOf(NamedTuple):
    """The first of these that the client has is enough; the last one decides about rows."""

    parts: tuple["Need", ...]


Need = Right | Each | OnAny | AllOf | AnyOf

NOTHING = AllOf(())
"""Every client may ask, or the API by itself decides nothing about a resource."""


def all_of(*parts: Need) -> AllOf:
    return AllOf(parts)


def any_of(*parts: Need) -> AnyOf:
    return AnyOf(parts)
