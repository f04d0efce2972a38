"""What happens on a broker of Apache Kafka that only it serves: consumer and share groups."""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.suites.kafka_scene import PARTITIONS, TOPIC, wait_for
from tests.suites.process import Lines

LIVING, EMPTIED, UPGRADED, DELETED = "modern", "modern-emptied", "upgraded", "modern-deleted"
SHARE = "shared"
_CONSUMER = {"group.protocol": "consumer"}
_TOOL_S = 60.0
_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


class ModernScene:
    """Clients of one broker. Leaving the `with` block ends those that are still connected."""

    def __init__(self, bootstrap: str, java: Sequence[str], folder: Path) -> None:
        self._bootstrap = bootstrap
        self._java = java
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._members: dict[str, list[Consumer]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self) -> None:
        """Groups with two members, without members, upgraded, to be deleted, and a share group."""
        self._share()
        for group in (EMPTIED, DELETED):
            self._leave(self._join(group, _CONSUMER))
        self._leave(self._join(UPGRADED, {}))
        for group in (LIVING, LIVING, UPGRADED):
            member = self._join(group, _CONSUMER)
            self._stack.callback(member.close)

    def delete(self) -> None:
        """Delete a group that nobody is in."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        wait_for(partial(_is_deleted, admin), f"{DELETED} is deleted")

    def _join(self, group: str, more: dict[str, Any]) -> Consumer:
        """A member that has got an assignment and committed."""
        about = {"bootstrap.servers": self._bootstrap, "group.id": group, "client.id": group}
        consumer = Consumer({**about, "enable.auto.commit": False, **more})
        consumer.subscribe([TOPIC])
        members = [*self._of(group), consumer]

        def settled() -> bool:
            for member in members:
                member.poll(0.1)
            return sum(len(member.assignment()) for member in members) == PARTITIONS and all(
                member.assignment() for member in members
            )

        wait_for(settled, f"{group} settles")
        self._of(group).append(consumer)
        for member in members:
            places = [TopicPartition(TOPIC, each.partition, 9) for each in member.assignment()]
            member.commit(offsets=places, asynchronous=False)
        return consumer

    def _of(self, group: str) -> list[Consumer]:
        return self._members.setdefault(group, [])

    def _leave(self, consumer: Consumer) -> None:
        for members in self._members.values():
            if consumer in members:
                members.remove(consumer)
        consumer.close()

    def _share(self) -> None:
        words = ["--bootstrap-server", self._bootstrap, "--topic", TOPIC, "--group", SHARE]
        lines = Lines([*self._java, _SHARE_CONSUMER, *words], self._folder, limit_s=10 * _TOOL_S)
        self._stack.enter_context(lines)


def _is_deleted(admin: AdminClient) -> bool:
    try:
        admin.delete_consumer_groups([DELETED])[DELETED].result()
    except KafkaException:
        return False
    return True
