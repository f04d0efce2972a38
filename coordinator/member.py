"""A member of a group, and data about its client.

Source: `ClassicGroupMember`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groupkeeper.coordinator.caller import Peer, ReplyTo
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.member_bytes import COPIES, MEMBER_BYTES, bytes_of
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol

Protocols = Sequence[JoinGroupRequestProtocol]


@dataclass(frozen=True, slots=True)
class PendingMember:
    """A client that was given a member id and has not come back with it (KIP-394)."""

    who: Who
    session_timeout_ms: int


@dataclass(slots=True, eq=False)
class Member:
    """A member, under the id it holds now."""

    member_id: str
    instance_id: str | None
    client_id: str
    """From the first JoinGroup: a static restart changes neither this nor `client_host`."""
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    """In order of preference; no name twice."""
    assignment: bytes = b""
    is_restored: bool = False
    """Loaded, and not rejoined since: `protocols` has only the protocol that was elected."""
    is_new: bool = False
    """Its first join phase has not ended yet."""
    awaiting_join: ReplyTo | None = None
    join_version: int = 0
    """API version of the waiting JoinGroup: it decides how an error reply looks."""
    awaiting_sync: ReplyTo | None = None
    peer: Peer | None = None
    """Client of the last request except for repeated heartbeats; None after a load."""
    heard_ms: int = 0
    """Time of the last request, if the session's deadline does not give it: see `liveness`."""
    restarted_ms: int = -1
    """Time at which the session was restarted without a request of the member."""
    gave_up: bool = False
    """Its client ended this membership because the coordinator stalled, and joined anew."""
    committed_ms: int = -1
    """Time of its last commit, which most clients send while they are polled; -1 for never."""
    beats: int = 0
    """Number of heartbeats since `beats_since_ms`, when its last JoinGroup or SyncGroup was
    answered."""
    beats_since_ms: int = 0
    beats_before: int = 0
    """Number of heartbeats before that, since it joined or was loaded."""
    beat_ms: int = 0
    """Time of its last heartbeat, or of the answer to its last JoinGroup or SyncGroup."""
    gap_ms: int = 0
    """The longest time between two of these since its last commit."""
    longest_gap_ms: int = 0
    """The longest gap before that, since it joined or was loaded."""

    @property
    def waits(self) -> bool:
        """Whether a request of this member is parked; its session does not expire meanwhile."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def size(self) -> int:
        """Estimated memory of the member, in bytes."""
        copies = (COPIES - 1) * len(self.assignment)
        return MEMBER_BYTES + self.named_bytes + bytes_of(self.protocols)[1] + copies

    @property
    def named_bytes(self) -> int:
        """Memory of names and assignment: the part of DescribeGroups besides the metadata."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.client_id)
        return names + len(self.assignment)

    @property
    def who(self) -> Who:
        """The member with the client of its last request, maybe on another host than the first."""
        peer = self.peer
        if peer is None:
            return Who(self.member_id, self.instance_id, self.client_id, self.client_host)
        return Who(
            self.member_id,
            self.instance_id,
            peer.client_id,
            peer.host,
            None,
            peer.software_name,
            peer.software_version,
            peer.principal,
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; empty when it does not support it."""
        return metadata_for(protocol_name, self.protocols)


def metadata_for(protocol_name: str | None, protocols: Protocols) -> bytes:
    """Return the metadata for one of a member's protocols; empty if it is not offered."""
    for protocol in protocols:
        if protocol.name == protocol_name:
            return protocol.metadata
    return b""


def most_wanted(candidates: set[str], ballots: Iterable[Protocols]) -> str:
    """Return the candidate with most votes, in a tie the earliest. Each ballot votes for the first
    of its names that is a candidate.

    Linear in all names of all ballots: a client may send hundreds of thousands.
    """
    if len(candidates) == 1:
        return next(iter(candidates))
    votes: dict[str, int] = {}
    for ballot in ballots:
        choice = ballot[0].name
        if choice not in candidates:
            choice = next(p.name for p in ballot if p.name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=votes.__getitem__)
