"""A minimal consumer process for `groupkeeper demo`.

Joins a group and consumes until standard input ends, so that it ends with the process that started
it.

    python -m groupkeeper.client.demo_consumer localhost:9092 orders billing consumer-1
"""

import asyncio
import sys
import threading
from argparse import ArgumentParser, Namespace
from contextlib import suppress

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener

SESSION_TIMEOUT_MS = 3_000
HEARTBEAT_INTERVAL_MS = 300
REBALANCE_TIMEOUT_MS = 20_000


class _Busy(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
    """Delays the consumer's first rejoin, like an application busy with a batch."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def on_partitions_revoked(self, revoked: frozenset[object]) -> None:
        if revoked:
            seconds, self._seconds = self._seconds, 0.0
            await asyncio.sleep(seconds)

    async def on_partitions_assigned(self, assigned: frozenset[object]) -> None:
        pass


async def _consume(options: Namespace) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        group_instance_id=options.instance,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        auto_offset_reset="earliest",
    )
    consumer.subscribe([options.topic], listener=_Busy(options.busy_s))
    await consumer.start()
    async for _ in consumer:
        pass


async def _until_abandoned(options: Namespace) -> None:
    consuming = asyncio.ensure_future(_consume(options))
    abandoned = asyncio.ensure_future(_end_of_input())
    await asyncio.wait([consuming, abandoned], return_when=asyncio.FIRST_COMPLETED)
    if consuming.done():
        consuming.result()


async def _end_of_input() -> None:
    """Wait for the end of standard input, in a thread, as not all event loops can read the pipe."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        sys.stdin.buffer.read()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, daemon=True).start()
    await ended.wait()


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="demo_consumer", description="A consumer for the demonstration.")
    for name in ("bootstrap", "topic", "group", "client_id"):
        parser.add_argument(name)
    parser.add_argument("--instance", help="group.instance.id")
    parser.add_argument("--busy-s", type=float, default=0.0, help="before the first rejoin")
    return parser


if __name__ == "__main__":
    asyncio.run(_until_abandoned(_parser().parse_args()))
