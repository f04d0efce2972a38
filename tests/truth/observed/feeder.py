"""Lets records arrive all the time, so that members have something to commit."""

import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from tests.clients import environments
from tests.clients.libraries import CONFLUENT


class Feeder:
    """One process that sends records to the topics of all plays."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        self._writing = threading.Lock()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-S", str(Path(__file__).parent / "feeder_program.py"), bootstrap],
                env={"PYTHONPATH": str(environments.folder(CONFLUENT.name))},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
            )

    def feed(self, topic: str, partitions: Iterable[int]) -> None:
        """Send a record to each of these partitions of the topic every 0.8 s from now on."""
        assert self.process.stdin is not None
        numbers = ",".join(map(str, partitions)) or "-"
        with self._writing:
            self.process.stdin.write(f"{topic} {numbers}\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
