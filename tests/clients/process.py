"""The tests' side of a worker process: give commands, see what it consumed and was assigned.

Everything that a worker tells arrives on one reader thread per worker and wakes the one condition
that all workers of a test share, so a test waits for events and never sleeps.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients import environments
from tests.clients.libraries import Library

SCRIPTS = Path(__file__).parent / "workers"
ANSWER_SECONDS = 40.0
WAIT_SECONDS = 30.0

Partition = tuple[str, int]


class ClientError(Exception):
    """What the client library raised in the worker: the name of the error, then its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Worker:
    """One process with one client. `records` and `assigned` are what it told so far."""

    def __init__(self, library: Library, bootstrap: str, changed: threading.Condition) -> None:
        self.library = library
        self.changed = changed
        self.records: list[tuple[str, int, int, str]] = []
        self.assigned: set[Partition] | None = None
        self.owned: set[Partition] = set()
        """Like `assigned`, but for what a cooperative client keeps in a rebalance."""
        self.turns: list[tuple[int, frozenset[Partition]]] = []
        """What it owned from when on, in Unix milliseconds."""
        self.assignments = 0
        self.revocations = 0
        self.failed: str | None = None
        self.ended = False
        self._answers: dict[int, dict[str, Any]] = {}
        self._asked = 0
        self._bootstrap = bootstrap

    def start(self, log: Path) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-S", str(SCRIPTS / self.library.script), self._bootstrap],
                env={"PYTHONPATH": str(environments.folder(self.library.name))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    # ------------------------------------------------------------ telling it

    def ask(self, do: str, **arguments: Any) -> Any:
        """Let the worker do something and wait for the answer; its error is a ClientError."""
        return self.answer_to(self.tell(do, **arguments))

    def tell(self, do: str, **arguments: Any) -> int:
        """Let the worker do something without waiting; the number is for `answer_to`."""
        self._asked += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": self._asked, "do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._asked

    def answer_to(self, number: int) -> Any:
        with self.changed:
            self.changed.wait_for(lambda: number in self._answers or self.ended, ANSWER_SECONDS)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise AssertionError(f"no answer from {self}")
        if "error" in answer:
            raise ClientError(answer["error"], answer["text"])
        return answer["result"]

    def kill(self) -> None:
        """kill -9: the process ends without leaving its group."""
        self.process.kill()
        self._own(set())
        self.process.wait()

    def stop(self) -> None:
        """Let the process stand still, as a long pause of garbage collection does."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    # ------------------------------------------------------------ hearing from it

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            with self.changed:
                self._note(told)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _note(self, told: dict[str, Any]) -> None:
        match told:
            case {"answer": number}:
                self._answers[number] = told
            case {"event": "records", "records": records}:
                self.records += [tuple(record) for record in records]
            case {"event": "assigned", "partitions": partitions}:
                self.assigned = {(topic, number) for topic, number in partitions}
                self._own(self.assigned)
                self.assignments += 1
            case {"event": "revoked"}:
                self.assigned = None
                given_up = {(topic, number) for topic, number in told.get("partitions", ())}
                self._own(self.owned - given_up if given_up else set())
                self.revocations += 1
            case {"event": "failed", "error": error}:
                self.failed = error

    def _own(self, partitions: set[Partition]) -> None:
        self.owned = partitions
        self.turns.append((time.time_ns() // 1_000_000, frozenset(partitions)))

    def __repr__(self) -> str:
        state = "ended" if self.ended else f"failed {self.failed}" if self.failed else "alive"
        return (
            f"<{self.library.name} pid {self.process.pid} {state}, {len(self.records)} records, "
            f"{self.assignments} assignments, owns {sorted(self.assigned or ())}>"
        )


def wait_until(
    condition: Callable[[], bool], workers: list[Worker], seconds: float = WAIT_SECONDS
) -> None:
    """Wait until the condition holds, asked again at every event of one of the workers."""
    changed = workers[0].changed
    deadline = time.monotonic() + seconds
    with changed:
        if not changed.wait_for(condition, deadline - time.monotonic()):
            states = "\n".join(map(repr, workers))
            raise AssertionError(f"did not come true within {seconds} s:\n{states}")
