"""kafka-verifiable-consumer as a member that others look at: what it owns, in its own words.

It prints a line of JSON for every event; a thread follows them until the process ends.
"""

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.suites.checks import wait_for
from tests.suites.process import Lines

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
        self.ended = False
        self._lines = Lines(command, folder, limit_s=_LIMIT_SECONDS, log=f"{self.name}.log")
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._lines.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.end()
        self._thread.join()
        self._lines.__exit__(kind, error, trace)

    def _follow(self) -> None:
        for line in self._lines:
            self.hear(line)
        self.ended = True

    def stop(self) -> None:
        """Let the consumer close itself, as the tool does when it is asked to end."""
        self._lines.terminate()
        wait_for(lambda: self.ended, f"the end of {self.name}")
