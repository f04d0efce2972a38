"""ListTransactions: the transactional ids of a coordinator (KIP-664)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, Int64, NullableString, String


@message(key=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    """Filters; version 1 adds durations (KIP-994), 2 a pattern (KIP-1152)."""

    state_filters: Array[String] = empty()
    """States of transactions to list; empty lists all."""
    producer_id_filters: Array[Int64] = empty()
    """Producers whose transactions to list; empty lists all."""
    duration_filter: Int64 = since(1, default=-1)
    """Milliseconds that a transaction has to be open; negative lists all."""
    transactional_id_pattern: NullableString = since(2, default=None)
    """Pattern of transactional ids; null or empty lists all."""


@struct
class TransactionState:
    """One transactional id."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""
    """State of its transaction."""


@response_to(ListTransactionsRequest)
class ListTransactionsResponse:
    """The transactional ids of this coordinator."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = empty()
    """Requested states that do not exist."""
    transaction_states: Array[TransactionState] = empty()
    """The transactional ids."""
