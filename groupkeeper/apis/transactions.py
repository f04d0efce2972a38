"""ListTransactions and DescribeTransactions: there are none, as on a broker without such producers.

Source: Kafka's `TransactionCoordinator.handleListTransactions`, `handleDescribeTransactions`.
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from groupkeeper.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_STATES: Final = frozenset(
    (
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
        *("Dead", "PrepareEpochFence"),
    )
)


def list_transactions(
    request: ListTransactionsRequest, caller: Caller, reply_to: ReplyTo
) -> ListTransactionsResponse:
    """None. Patterns are not looked at; states that do not exist are named, as in Kafka."""
    unknown = {each: None for each in request.state_filters if each not in _STATES}
    return ListTransactionsResponse(unknown_state_filters=list(unknown))


def describe_transactions(
    request: DescribeTransactionsRequest, caller: Caller, reply_to: ReplyTo
) -> DescribeTransactionsResponse:
    """TRANSACTIONAL_ID_NOT_FOUND for each."""

    def unknown(transactional_id: str) -> TransactionState:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        return TransactionState(error_code=error, transactional_id=transactional_id)

    return DescribeTransactionsResponse(
        transaction_states=mapped(unknown, request.transactional_ids)
    )
