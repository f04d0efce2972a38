"""InitProducerId: producer ids that were never given out before, crashes included.

Not sequences (producers.py). Transactional ids are refused: there is no transaction coordinator.
Source: KIP-98, KIP-360; Kafka's ``TransactionCoordinator.handleInitProducerId``.
"""

import asyncio

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.batches import TRANSACTIONS_REFUSED
from groupkeeper.topics.topics import Topics

_NONE = -1


class InitProducerIdHandler:
    """Hands out ids from a durable block; only a new block costs a sync."""

    def __init__(self, topics: Topics) -> None:
        self._catalog = topics.catalog
        self._response_tasks = topics.response_tasks
        self._wall_ms = topics.wall_ms
        self._block = iter(range(0))
        self._reserving = asyncio.Lock()

    def handle(
        self, request: InitProducerIdRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        refused = _complaint(request)
        if refused is not None:
            return _failure(refused)
        producer_id = next(self._block, None)
        if producer_id is None:
            self._response_tasks.start(
                self._from_new_block(), reply_to, lambda: _failure(ErrorCode.UNKNOWN_SERVER_ERROR)
            )
            return None
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _from_new_block(self) -> InitProducerIdResponse:
        async with self._reserving:
            # Whoever waited for the lock may find the block that another one has taken.
            producer_id = next(self._block, None)
            if producer_id is None:
                try:
                    self._block = iter(await self._catalog.reserve_producer_ids(self._wall_ms()))
                except (StorageError, OSError):
                    return _failure(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                producer_id = next(self._block)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _complaint(request: InitProducerIdRequest) -> ErrorCode | None:
    """A producer that names its old id and epoch gets a new id all the same, as in Kafka."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    return ErrorCode.INVALID_REQUEST if not request.transactional_id else TRANSACTIONS_REFUSED


def _failure(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
