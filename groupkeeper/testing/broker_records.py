"""The part of `Broker` and `AsyncBroker` that is about topics, records and offsets."""

from asyncio import to_thread
from collections.abc import Iterable, Mapping
from functools import partial

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.seeding import Data, Headers, Record, timed, timed_ones


class BrokerRecords:
    """Sets them up, and reads them, without a client."""

    _bench: Bench

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; `configs` as {"cleanup.policy": "compact"}. Raises RequestFailed, also
        if it exists, and BrokerDown.
        """
        self._bench.seeding.create_topic(name, partitions, configs or {})

    def produce(
        self,
        topic: str,
        value: Data,
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Record:
        """Append a record, and return it as it is in the log. A str stands for its UTF-8 bytes.

        Without `partition`, the key decides as Kafka's clients do (murmur2), and records without
        a key go to the partitions in turn. The time is the broker's unless it is given (Unix ms).
        A topic that does not exist is created only by `auto.create.topics.enable`.
        Raises RequestFailed and BrokerDown.
        """
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        record = timed(value, key, headers, at_ms)
        return self._bench.seeding.produce(topic, [record], partition)[0]

    def produce_many(
        self,
        topic: str,
        values: Iterable[Data | tuple[Data, Data]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append many records, given as values or as pairs of key and value; see `produce`."""
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        return self._bench.seeding.produce(topic, timed_ones(values, at_ms), partition)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All records that are in a topic now, partition after partition, decompressed, without
        control records. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.records(topic, partition)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition; empty for a group that
        does not exist. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.committed(group)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group that has no members, to say where consumers begin. Raises
        RequestFailed and BrokerDown.
        """
        self._bench.seeding.commit(group, offsets)


class AsyncBrokerRecords:
    """The same for coroutines, on a thread."""

    _records: BrokerRecords

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """See `Broker.create_topic`."""
        await to_thread(self._records.create_topic, name, partitions, configs=configs)

    async def produce(
        self,
        topic: str,
        value: Data,
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Record:
        """See `Broker.produce`."""
        produce = partial(self._records.produce, headers=headers, timestamp_ms=timestamp_ms)
        return await to_thread(produce, topic, value, key=key, partition=partition)

    async def produce_many(
        self,
        topic: str,
        values: Iterable[Data | tuple[Data, Data]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """See `Broker.produce_many`."""
        many = partial(self._records.produce_many, timestamp_ms=timestamp_ms)
        return await to_thread(many, topic, values, partition=partition)

    async def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """See `Broker.records`."""
        return await to_thread(self._records.records, topic, partition)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """See `Broker.committed`."""
        return await to_thread(self._records.committed, group)

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """See `Broker.commit`."""
        await to_thread(self._records.commit, group, offsets)
