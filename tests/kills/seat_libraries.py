"""Consumers of client libraries in the crowd of reserved seats: they are killed and begun anew."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.clients.libraries import Library
from tests.kills.crowd import Consumer, Producer
from tests.kills.ledger import Ledger
from tests.support.wire import Address

MEMBERS = 2
SESSION_MS = 3_000
ENDS = 0.4
"""How often one of a group is killed in a round."""


class Libraries:
    """A group of each library, and what its members were acknowledged."""

    def __init__(
        self, libraries: Sequence[Library], address: Address, folder: Path, chance: Random
    ) -> None:
        self.ledger = Ledger()
        self.ended = self.failed = 0
        self._address, self._folder, self._chance = address, folder, chance
        self._numbers = itertools.count(1)
        self._consumers = [self._begun(each) for each in libraries for _ in range(MEMBERS)]
        self._libraries = list(libraries)
        self._producer = Producer(address, self.ledger) if libraries else None
        if self._producer is not None:
            self._producer.start()

    def _begun(self, library: Library) -> tuple[Library, Consumer]:
        host, port = self._address
        log = self._folder / f"{library.name}-{next(self._numbers)}.log"
        consumer = Consumer(library, f"{host}:{port}", None, log, self.ledger, SESSION_MS)
        consumer.name = f"{consumer.name} {log.stem}"
        consumer.start()
        return library, consumer

    @property
    def groups(self) -> list[str]:
        return sorted({consumer.group_id for _, consumer in self._consumers})

    def some_end(self) -> None:
        """kill -9, and a new process at once."""
        for number, (library, consumer) in enumerate(self._consumers):
            if self._chance.random() < ENDS / MEMBERS:
                consumer.end()
                self.ended += 1
                self._consumers[number] = self._begun(library)

    def commits(self) -> dict[str, int]:
        """How many were acknowledged to each that lives. One whose library has raised an error out
        of its poll is started again first: kafka-python does when a server dies in its first join.
        """
        for number, (library, consumer) in enumerate(self._consumers):
            if consumer.failed:
                consumer.end()
                self.failed += 1
                self._consumers[number] = self._begun(library)
        names = [consumer.name for _, consumer in self._consumers]
        return {name: self.ledger.acknowledged.get(name, 0) for name in names}

    def promised(self) -> dict[str, dict[tuple[str, int], int]]:
        groups = self.ledger.copy().groups
        return {each: groups[each].acknowledged for each in self.groups if each in groups}

    def end(self) -> None:
        for _, consumer in self._consumers:
            consumer.end()
        if self._producer is not None:
            self._producer.end()
