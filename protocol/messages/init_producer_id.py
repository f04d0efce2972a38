"""InitProducerId: assigns a producer id to an idempotent or transactional producer (KIP-98)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since
from groupkeeper.protocol.types import Int16, Int32, Int64, NullableString


@message(key=ApiKey.INIT_PRODUCER_ID, versions=(0, 4), flexible=2)
class InitProducerIdRequest:
    """Requests a producer id; version 3 can also raise the epoch of a known one (KIP-360)."""

    transactional_id: NullableString = ""
    """Id of a transactional producer; null for an idempotent one."""
    transaction_timeout_ms: Int32 = 0
    """How long a transaction may stay idle before it is aborted."""
    producer_id: Int64 = since(3, default=-1)
    """Producer id that the client has; -1 if none."""
    producer_epoch: Int16 = since(3, default=-1)
    """Epoch that the client has; -1 if none."""


@response_to(InitProducerIdRequest)
class InitProducerIdResponse:
    """The producer id and its epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    """Producer id to use; -1 on an error."""
    producer_epoch: Int16 = 0
    """Epoch to use; -1 on an error."""
