"""Why a rebalance, or a change of membership, happened.

Every function that starts a rebalance, or adds, replaces or removes a member, takes a `Cause`. A
cause is data: it holds what is known at the moment of the decision, and no decision depends on it.
Its wording for people is chosen by the code that shows it; what is likely behind it is guessed in
`coordinator.likely`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.group_events import CauseCode


@dataclass(slots=True)
class Who:
    """A member, or the client that sent a request in the member's name."""

    member: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    api_version: int | None = None
    software_name: str = ""
    software_version: str = ""
    principal: str = ""
    """Who has logged in, such as `User:alice`; empty without a login."""

    @classmethod
    def calling(cls, caller: Caller, member: str, instance: str | None = None) -> "Who":
        """Describe the sender of a request made in the name of `member`."""
        peer = caller.peer
        return cls(
            member,
            instance,
            peer.client_id,
            peer.host,
            caller.api_version,
            peer.software_name,
            peer.software_version,
            peer.principal,
        )


@dataclass(slots=True)
class Cause:
    """A code, the member or client that triggered it, and the client's own reason (KIP-800)."""

    code: CauseCode
    who: Who | None = None
    reason: str | None = None
    likely: str | None = None
    """The probable reason behind the code: a key of `LIKELY` in `protocol.group_event_words`."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The numbers that support the code and the guess: keys of `EVIDENCE` in the same module."""
