"""InitProducerId: allocates producer ids, none twice, not even after a crash.

Sequences are checked in producers.py. Transactional ids are refused.
Source: KIP-98, KIP-360; Kafka's `TransactionCoordinator.handleInitProducerId`.
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
from groupkeeper.topics.batches import NO_TRANSACTIONS
from groupkeeper.topics.topics import Topics

_NONE = -1


class InitProducerIdHandler:
    """Allocates ids from a block; only the reservation of a new block is synced to the disk."""

    def __init__(self, topics: Topics) -> None:
        self._catalog = topics.catalog
        self._response_tasks = topics.response_tasks
        self._wall_ms = topics.wall_ms
        self._block = iter(range(0))
        self._reserving = asyncio.Lock()

    def handle(
        self, request: InitProducerIdRequest, caller: Caller, reply_to: ReplyTo
    ) -> Response | None:
        error = _check(request)
        if error is not None:
            return _refused(error)
        producer_id = next(self._block, None)
        if producer_id is None:
            self._response_tasks.start(
                self._from_new_block(), reply_to, lambda: _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            )
            return None
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _from_new_block(self) -> InitProducerIdResponse:
        async with self._reserving:
            # Another request may have reserved a block while this one waited for the lock.
            producer_id = next(self._block, None)
            if producer_id is None:
                try:
                    self._block = iter(await self._catalog.reserve_producer_ids(self._wall_ms()))
                except (StorageError, OSError):
                    return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                producer_id = next(self._block)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _check(request: InitProducerIdRequest) -> ErrorCode | None:
    """Return an error, or None. A producer's old id and epoch bring a new id, as in Kafka."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    return ErrorCode.INVALID_REQUEST if not request.transactional_id else NO_TRANSACTIONS.error


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
