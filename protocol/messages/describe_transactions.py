"""DescribeTransactions: the transactions of some transactional ids (KIP-664)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, String


@message(key=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    """Names the transactional ids."""

    transactional_ids: Array[String] = empty()
    """Transactional ids to describe."""


@struct
class TopicData:
    """Partitions of one topic in a transaction."""

    topic: String = ""
    partitions: Array[Int32] = empty()
    """Numbers of the partitions, from 0."""


@struct
class TransactionState:
    """The transaction of one transactional id."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    """State of the transaction."""
    transaction_timeout_ms: Int32 = 0
    """How long it may be open."""
    transaction_start_time_ms: Int64 = 0
    """Epoch milliseconds of its beginning."""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    """Epoch of the producer."""
    topics: Array[TopicData] = empty()
    """Partitions that take part in it."""


@response_to(DescribeTransactionsRequest)
class DescribeTransactionsResponse:
    """One result for each transactional id."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState] = empty()
    """The transactions."""
