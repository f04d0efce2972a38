"""Reads of one partition: a broker that throttles its clients."""

from typing import Any, cast

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.client.partition_log import PartitionReader
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import FetchRequest, FetchResponse
from groupkeeper.protocol.record_batch import encode_batch
from tests.support.virtual_loop import VirtualLoop
from tests.watch.cluster import TOPIC, FakeCluster

DATA = encode_batch(0, 0, 1_000, [(b"key", b"value")])


class Throttling(FakeCluster):
    """Answers some Fetches with no partition, as a broker does when a quota is used up."""

    def __init__(self, times: int, throttle_ms: int) -> None:
        super().__init__()
        self.left, self._throttle_ms = times, throttle_ms
        self.append(0, DATA)

    async def call(self, request: Any, *, node: int | None = None) -> Any:
        answer = await super().call(request, node=node)
        if not isinstance(request, FetchRequest) or not self.left:
            return answer
        self.left -= 1
        return FetchResponse(throttle_time_ms=self._throttle_ms)


def fetched(cluster: FakeCluster) -> tuple[Any, float]:
    """What a reader gets, and how long it took."""
    loop = VirtualLoop()
    reader = PartitionReader(cast("Client", cluster), TOPIC, 0)

    async def fetch() -> Any:
        return await reader.fetch(0)

    began = loop.time()
    return loop.run_until_complete(fetch()), loop.time() - began


@pytest.mark.parametrize("throttle_ms", [0, 1_500])
def test_a_client_that_is_throttled_waits_and_asks_again(throttle_ms: int) -> None:
    data, seconds = fetched(Throttling(2, throttle_ms))
    assert data.records == DATA
    assert 2 * throttle_ms / 1000 < seconds < 2 * throttle_ms / 1000 + 1


def test_a_client_that_stays_throttled_says_so() -> None:
    cluster = Throttling(1_000, 200)
    with pytest.raises(CallFailed) as failed:
        fetched(cluster)
    assert failed.value.error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert cluster.left > 950


def test_no_broker_makes_a_client_wait_for_long() -> None:
    _, seconds = fetched(Throttling(1, 2**31 - 1))
    assert seconds < FakeCluster.timeout_s
