"""InitProducerId (key 22): an identity for an idempotent or transactional producer (KIP-98)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since
from groupkeeper.protocol.types import Int16, Int32, Int64, NullableString


@message(key=ApiKey.INIT_PRODUCER_ID, versions=(0, 4), flexible=2)
class InitProducerIdRequest:
    """Asks for a producer id; version 3 can raise the epoch of one that is held (KIP-360)."""

    transactional_id: NullableString = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@response_to(InitProducerIdRequest)
class InitProducerIdResponse:
    """The producer id and its epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
