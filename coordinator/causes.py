"""Why a rebalance, or a change of membership, happened.

Every change takes a :class:`Cause` by signature, so there is no way to start a rebalance, or to
add, replace or remove a member, without saying why. A cause is data: it holds what is known at
the moment of the decision and is never interpreted by the core. It is not a message to people;
the words are chosen by whoever shows it.
"""

from dataclasses import dataclass
from enum import StrEnum

from groupkeeper.coordinator.caller import Caller


class CauseCode(StrEnum):
    """The one trigger of a change. The values are part of the stored event format."""

    MEMBER_JOINED = "member_joined"
    STATIC_MEMBER_JOINED = "static_member_joined"
    STATIC_MEMBER_RETURNED_CHANGED = "static_member_returned_changed"
    STATIC_MEMBER_RETURNED_UNREADY = "static_member_returned_unready"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    LEADER_REJOINED = "leader_rejoined"
    MEMBER_REJOINED = "member_rejoined"
    MEMBER_LEFT = "member_left"
    MEMBER_REMOVED_BY_ADMIN = "member_removed_by_admin"
    SESSION_EXPIRED = "session_expired"
    JOIN_TIMEOUT = "join_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    GROUP_SHRUNK = "group_shrunk"
    ASSIGNMENT_LOST = "assignment_lost"


@dataclass(slots=True)
class Who:
    """A member, or somebody who asked for something in its name."""

    member: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    api_version: int | None = None

    @classmethod
    def calling(cls, caller: Caller, member: str, instance: str | None = None) -> "Who":
        """The sender of a request that speaks for ``member``."""
        peer = caller.peer
        return cls(member, instance, peer.client_id, peer.host, caller.api_version)


@dataclass(slots=True)
class Cause:
    """Why: a code, who triggered it, and the client's own words (KIP-800), verbatim."""

    code: CauseCode
    who: Who | None = None
    reason: str | None = None
