"""FindCoordinator (key 10): which broker coordinates a group.

Version 4 asks for several at once (KIP-699), 6 can ask for share coordinators (KIP-932).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, NullableString, String

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1
KEY_TYPE_SHARE = 2


@message(key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    """Asks for the coordinator of one key, or from version 4 on of several keys of one type."""

    key: String = until(3)
    key_type: Int8 = since(1)
    coordinator_keys: Array[String] = since(4)


@struct
class Coordinator:
    """The coordinator of one key."""

    key: String = since(4)
    node_id: Int32 = since(4)
    host: String = since(4)
    port: Int32 = since(4)
    error_code: Int16 = since(4)
    error_message: NullableString = since(4, default="")


@response_to(FindCoordinatorRequest)
class FindCoordinatorResponse:
    """One coordinator in the message itself up to version 3, a list from 4 on."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = until(3)
    error_message: NullableString = since(1, until=3, default="")
    node_id: Int32 = until(3)
    host: String = until(3)
    port: Int32 = until(3)
    coordinators: Array[Coordinator] = since(4)
