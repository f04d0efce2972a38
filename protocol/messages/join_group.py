"""JoinGroup: joins or rejoins a group; answered when all members have joined."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Boolean, Bytes, Int16, Int32, NullableString, String


@struct
class JoinGroupRequestProtocol:
    """A protocol that the member supports; for consumers that is an assignor."""

    name: String = ""
    """Name of the protocol; for consumers that of an assignor, such as `range`."""
    metadata: Bytes = b""
    """What the member subscribes to, in the protocol's own format."""


@message(key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Joins a group. Version 5 adds static members (KIP-345), 8 the reason (KIP-800)."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    """Milliseconds without a heartbeat after which the member is removed."""
    rebalance_timeout_ms: Int32 = since(1, default=-1)
    """How long a rebalance waits for the member; in version 0 the session timeout."""
    member_id: String = ""
    """Id that the coordinator gave the member; empty on its first join."""
    group_instance_id: NullableString = since(5, default=None)
    protocol_type: String = ""
    """Kind of group: `consumer`, `connect` or the client's own; the same for all members."""
    protocols: Array[JoinGroupRequestProtocol] = empty()
    """Protocols that the member supports, the preferred one first."""
    reason: NullableString = since(8, default=None)
    """Why the member joins, for logs; null if it does not say."""


@struct
class JoinGroupResponseMember:
    """A member and its subscription, sent to the leader only."""

    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    metadata: Bytes = b""
    """Its subscription in the chosen protocol."""


@response_to(JoinGroupRequest)
class JoinGroupResponse:
    """The new generation.

    Version 7 adds the protocol type (KIP-559), 9 lets the leader keep the assignment (KIP-814).
    """

    throttle_time_ms: Int32 = since(2)
    error_code: Int16 = 0
    """0, MEMBER_ID_REQUIRED to join again with `member_id`, or why the join failed."""
    generation_id: Int32 = -1
    """The new generation; -1 on an error."""
    protocol_type: NullableString = since(7, default=None)
    protocol_name: NullableString = since(0, nullable_since=7, default="")
    """The chosen protocol; empty, from version 7 on null, on an error."""
    leader: String = ""
    """Member id of the leader; empty on an error."""
    skip_assignment: Boolean = since(9)
    """True if the leader is not to compute an assignment: the old one stays."""
    member_id: String = ""
    """Id of this member, to be sent from now on."""
    members: Array[JoinGroupResponseMember] = empty()
    """All members in the leader's response, else empty."""
