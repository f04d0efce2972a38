"""FindCoordinator: the broker that coordinates a group or a transactional id.

Version 4 takes several keys (KIP-699), 6 share coordinators (KIP-932).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int8, Int16, Int32, NullableString, String

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1
KEY_TYPE_SHARE = 2


@message(key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    """Requests the coordinator of one key, or from version 4 on of several keys of one type."""

    key: String = until(3)
    """Group id, or transactional id."""
    key_type: Int8 = since(1)
    """0 for groups, 1 for transactions, 2 for share partitions."""
    coordinator_keys: Array[String] = since(4)
    """Group ids, or others of the type."""


@struct
class Coordinator:
    """The coordinator of one key."""

    key: String = since(4)
    """Key that was asked for."""
    node_id: Int32 = since(4)
    """Broker id of the coordinator; -1 on an error."""
    host: String = since(4)
    """Host name to connect to; empty on an error."""
    port: Int32 = since(4)
    """Port to connect to; -1 on an error."""
    error_code: Int16 = since(4)
    error_message: NullableString = since(4, default="")


@response_to(FindCoordinatorRequest)
class FindCoordinatorResponse:
    """One coordinator in the message itself up to version 3, a list from 4 on."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = until(3)
    error_message: NullableString = since(1, until=3, default="")
    node_id: Int32 = until(3)
    """Broker id of the coordinator; -1 on an error."""
    host: String = until(3)
    """Host name to connect to; empty on an error."""
    port: Int32 = until(3)
    """Port to connect to; -1 on an error."""
    coordinators: Array[Coordinator] = since(4)
    """One result for each key."""
