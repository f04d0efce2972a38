"""Real consumers that poll on a thread of their own, with heartbeats every 50 ms, and commit what
they read.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AsyncListener
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener

from groupkeeper.testing import Broker
from tests.testing.members import beats, until

BEAT_MS: Final = 50
POLL_S: Final = 0.02
QUIET_BEATS: Final = 3
LONGEST_S: Final = 60.0
Assigned = frozenset[int]


class Polling:
    """A consumer of `orders`. Settings are those of its library."""

    def __init__(
        self, servers: str, client_id: str = "consumer", poll_s: float = POLL_S, **settings: Any
    ) -> None:
        self.client_id = client_id
        self._poll_s = poll_s
        self._values: set[bytes] = set()
        self.assigned: list[Assigned] = [frozenset()]
        """The partitions that it was given, each time since the last question."""
        self.error: BaseException | None = None
        """What has ended it."""
        self.changed = threading.Condition()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guarded, args=(servers, settings))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _guarded(self, servers: str, settings: dict[str, Any]) -> None:
        try:
            given = {
                "bootstrap_servers": servers,
                "group_id": "g",
                "client_id": self.client_id,
                "heartbeat_interval_ms": BEAT_MS,
                "session_timeout_ms": 45_000,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
            }
            self._run(given | settings)
        except BaseException as error:  # noqa: BLE001  # what ended the thread is asked for
            with self.changed:
                self.error = error
                self.changed.notify_all()

    def _run(self, settings: dict[str, Any]) -> None:
        raise NotImplementedError

    def _got(self, values: list[bytes]) -> None:
        with self.changed:
            self._values.update(values)
            self.changed.notify_all()

    def reads(self, wanted: set[bytes]) -> None:
        """Wait until records with these values have come, and their offsets are committed."""
        with self.changed:
            self._wait(lambda: wanted <= self._values, LONGEST_S)

    def _note(self, partitions: Any) -> None:
        with self.changed:
            self.assigned.append(frozenset(each.partition for each in partitions))
            self.changed.notify_all()

    def gets(self, *partitions: int, seconds: float = LONGEST_S) -> None:
        """Wait until it is given these partitions, or has them."""
        wanted = frozenset(partitions)
        with self.changed:
            self._wait(lambda: wanted in self.assigned, seconds)
            self.assigned = self.assigned[self.assigned.index(wanted) :]

    def gets_some(self, count: int, seconds: float = LONGEST_S) -> Assigned:
        """Wait until it is given so many partitions, or has them."""
        with self.changed:
            self._wait(lambda: count in map(len, self.assigned), seconds)
            at = [*map(len, self.assigned)].index(count)
            self.assigned = self.assigned[at:]
            return self.assigned[0]

    def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        ready = self.changed.wait_for(lambda: self.error is not None or done(), seconds)
        assert ready and self.error is None, (self.error, self.assigned, self._values)


class _Listener(ConsumerRebalanceListener, AsyncListener):  # type: ignore[misc]
    """For both libraries in Python."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        self._note = note

    def on_partitions_revoked(self, revoked: Any) -> None: ...

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._note(assigned)


class OnKafkaPython(Polling):
    def _run(self, settings: dict[str, Any]) -> None:
        consumer = KafkaConsumer(max_poll_interval_ms=300_000, **settings)
        consumer.subscribe(["orders"], listener=_Listener(self._note))
        # Else it joins twice at a start, and 3.0.12 may miss the answer to the second SyncGroup.
        consumer.partitions_for_topic("orders")
        try:
            while not self._over.is_set():
                found = consumer.poll(timeout_ms=int(self._poll_s * 1000))
                if found:
                    consumer.commit()
                    self._got([each.value for some in found.values() for each in some])
        finally:
            consumer.close(autocommit=False)


class OnConfluent(Polling):
    def _run(self, settings: dict[str, Any]) -> None:
        given = {
            "max_poll_interval_ms": 300_000,
            "partition_assignment_strategy": "roundrobin,range",
        }
        given |= settings
        consumer = Consumer({name.replace("_", "."): value for name, value in given.items()})
        consumer.subscribe(["orders"], on_assign=lambda _, partitions: self._note(partitions))
        try:
            while not self._over.is_set():
                message = consumer.poll(self._poll_s)
                if message is not None and message.error() is not None:
                    raise KafkaException(message.error())
                if message is not None:
                    consumer.commit(message, asynchronous=False)
                    self._got([message.value()])
        finally:
            consumer.close()


class OnAiokafka(Polling):
    def _run(self, settings: dict[str, Any]) -> None:
        asyncio.run(self._poll(settings))

    async def _poll(self, settings: dict[str, Any]) -> None:
        consumer = AIOKafkaConsumer(rebalance_timeout_ms=300_000, **settings)
        consumer.subscribe(["orders"], listener=_Listener(self._note))
        await consumer.start()
        try:
            while not self._over.is_set():
                found = await consumer.getmany(timeout_ms=int(self._poll_s * 1000))
                if found:
                    await consumer.commit()
                    self._got([each.value for some in found.values() for each in some])
        finally:
            await _stop(consumer)


async def _stop(consumer: AIOKafkaConsumer) -> None:
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        # aiokafka cancels its own fetches, and raises that if one of them waits to be tried again.
        # It has left the group before; only its connections are still open.
        await consumer._client.close()


LIBRARIES: Final = (OnKafkaPython, OnConfluent, OnAiokafka)


@contextmanager
def gathered(broker: Broker, *libraries: Callable[..., Polling]) -> Iterator[list[Polling]]:
    """Consumers that join one after the other, as some never recover from a first assignment
    without metadata. None is about to join again by itself, as kafka-python 3.0.12 may do soon
    after it was given partitions.
    """
    there: list[Polling] = []
    with ExitStack() as stack:
        for number, library in enumerate(libraries, 1):
            client_id = f"consumer-{number}"
            there.append(stack.enter_context(library(broker.bootstrap_servers, client_id)))
            for each in there:
                each.gets_some(6 // number)
        while not _was_quiet(broker, {each.client_id for each in there}):
            pass
        yield there


def _was_quiet(broker: Broker, client_ids: set[str]) -> bool:
    """Wait for a rebalance, or for some heartbeats of each of these members without one."""
    group = broker.group("g")
    now = group.wait_until(stable=True, timeout=LONGEST_S)
    ids = [each.member_id for each in now.members if each.client_id in client_ids]
    enough = {each: beats(broker, each) + QUIET_BEATS for each in ids}

    def is_other() -> bool:
        return group.generation != now.generation or group.state != "Stable"

    until(lambda: is_other() or all(beats(broker, each) >= enough[each] for each in ids))
    return not is_other()
