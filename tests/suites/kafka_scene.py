"""What happens to a broker, or to our server, before its groups are moved: groups of every kind."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.suites.checks import wait_for

TOPIC, PARTITIONS = "letters", 6
BUSY = ("busy-1", "busy-2", "busy-3", "busy-4", "busy-5")
LIVING = ("members", "static")
WITHOUT_MEMBERS = ("simple", *BUSY, "emptied", "overtaken")
TRANSACTIONAL = "transactional"
DELETED = ("deleted", "busy-deleted")

_ROUNDS = 60
_WAIT_S = 30.0


class Scene:
    """The clients of one broker. Leaving the `with` block ends those that are still connected."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stack = contextlib.ExitStack()
        self._static: list[Consumer] = []
        self._kept: list[Producer] = []
        """Producers with open transactions."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        self._stack.close()

    def make_topic(self, messages: int = 600) -> None:
        """The topic of all groups, with messages; they stay as they are if they are there."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        with contextlib.suppress(KafkaException):  # it exists
            made[TOPIC].result()
        wait_for(lambda: TOPIC in admin.list_topics(timeout=5).topics, "the topic is there")
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(messages):
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(_WAIT_S) == 0

    def play(self, *, transactions: bool) -> None:
        """All groups but those with open transactions."""
        self.commit("simple", 5)
        for group in (*BUSY, "busy-deleted"):
            self.commit(group, *range(_ROUNDS))
        for group in ("deleted", "emptied"):
            self._join(group).close()
        self._delete(*DELETED)
        if transactions:
            self._transaction(TRANSACTIONAL, "t-1", 11, Producer.commit_transaction)
            self._transaction(TRANSACTIONAL, "t-2", 99, Producer.abort_transaction)
            for number in range(20):
                self._transaction(TRANSACTIONAL, "t-3", number, Producer.commit_transaction)
            self._transaction("overtaken", "t-4", 77, Producer.commit_transaction)
        self.commit("overtaken", 12)
        self._stack.callback(self._join("members").close)
        for name in ("s-1", "s-2"):
            self._static.append(self._join("static", {"group.instance.id": name}, assigned=False))
            self._stack.callback(self._static[-1].close)
        self._settle_static()

    def leave_transactions_open(self) -> None:
        """Offsets of transactions that never end, and commits after them."""
        for group, name in ((TRANSACTIONAL, "t-5"), ("overtaken", "t-6")):
            self._kept.append(self._transaction(group, name, 555, lambda producer: None))
        for group in ("busy-1", "overtaken"):
            self.commit(group, 33)

    def commit(self, group: str, *numbers: int) -> None:
        """Commit for two partitions, again and again, as a consumer that is no member."""
        consumer = self._consumer(group)
        for number in numbers:
            places = [TopicPartition(TOPIC, index, number + index) for index in range(2)]
            self._again(partial(consumer.commit, offsets=places, asynchronous=False))
        consumer.close()

    def _consumer(self, group: str, more: dict[str, Any] | None = None) -> Consumer:
        settings = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        about = {"bootstrap.servers": self._bootstrap, "group.id": group}
        return Consumer({**about, **settings, **(more or {})})

    def _join(
        self, group: str, more: dict[str, Any] | None = None, *, assigned: bool = True
    ) -> Consumer:
        """A member that has consumed and committed a little, if it is to be assigned something."""
        consumer = self._consumer(group, more)
        consumer.subscribe([TOPIC])
        if assigned:
            wait_for(lambda: bool(consumer.poll(0.1) and consumer.assignment()), f"{group} joins")
            consumer.consume(20, 1)
            self._again(lambda: consumer.commit(asynchronous=False))
        return consumer

    def _settle_static(self) -> None:
        def settled() -> bool:
            for member in self._static:
                member.poll(0.1)
            return all(len(member.assignment()) == PARTITIONS // 2 for member in self._static)

        wait_for(settled, "the static members share the topic")
        for member in self._static:
            places = [TopicPartition(TOPIC, each.partition, 7) for each in member.assignment()]
            self._again(partial(member.commit, offsets=places, asynchronous=False))

    def _delete(self, *groups: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for group in groups:
            self._again(partial(_delete, admin, group))

    def _transaction(
        self, group: str, name: str, offset: int, end: Callable[[Producer], None]
    ) -> Producer:
        settings = {"transactional.id": name, "transaction.timeout.ms": 600_000}
        producer = Producer({"bootstrap.servers": self._bootstrap, **settings})
        producer.init_transactions(_WAIT_S)
        producer.begin_transaction()
        consumer = self._consumer(group)
        place = [TopicPartition(TOPIC, 0, offset), TopicPartition(TOPIC, 3, offset)]
        producer.send_offsets_to_transaction(place, consumer.consumer_group_metadata(), _WAIT_S)
        end(producer)
        consumer.close()
        return producer

    def _again(self, call: Callable[[], object]) -> None:
        """Call until the broker has a coordinator and knows the members."""
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                call()
                return
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)


def _delete(admin: AdminClient, group: str) -> None:
    admin.delete_consumer_groups([group])[group].result()
