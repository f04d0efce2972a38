"""Heartbeat: keeps a member alive and tells it whether to rejoin."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since
from groupkeeper.protocol.types import Int16, Int32, NullableString, String


@message(key=ApiKey.HEARTBEAT, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    """Extends the member's session. Version 3 adds static members (KIP-345)."""

    group_id: String = ""
    generation_id: Int32 = 0
    """Generation that the member is in."""
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)


@response_to(HeartbeatRequest)
class HeartbeatResponse:
    """An error code only."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    """0, REBALANCE_IN_PROGRESS if the member has to rejoin, or why it is refused."""
