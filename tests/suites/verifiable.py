"""kafka-verifiable-consumer as a member that others look at: what it owns, in its own words.

It prints a line of JSON for every event; a thread follows them until the process ends.
"""

import json
from pathlib import Path
from typing import Self

from tests.suites.checks import wait_for
from tests.suites.process import Background, Lines

_LIMIT_SECONDS = 120.0


class Ownership:
    """The partitions that one consumer owns, all of one topic, and how they came and went."""

    def __init__(self) -> None:
        self.owned: frozenset[int] = frozenset()
        self.assigned: list[frozenset[int]] = []
        self.revoked: list[frozenset[int]] = []

    def hear(self, line: str) -> None:
        """Take one line of what the process prints; most say nothing of partitions."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        partitions = frozenset(each["partition"] for each in event.get("partitions", ()))
        name = event.get("name")
        if name == "partitions_assigned":
            self.assigned.append(partitions)
            self.owned |= partitions
        elif name == "partitions_revoked":
            self.revoked.append(partitions)
            self.owned -= partitions


class Member(Ownership):
    """A running consumer, in a `with` block that ends it."""

    def __init__(self, group: str, name: str, command: list[str], folder: Path) -> None:
        super().__init__()
        self.group = group
        self.name = f"{group}-{name}"
        lines = Lines(command, folder, limit_s=_LIMIT_SECONDS, log=f"{self.name}.log")
        self._running = Background(lines, self.hear)

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._running.__exit__()

    def stop(self) -> None:
        """Let the consumer close itself, as the tool does when it is asked to end."""
        self._running.terminate()
        wait_for(lambda: self._running.has_ended, f"the end of {self.name}")
