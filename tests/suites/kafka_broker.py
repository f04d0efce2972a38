"""A broker of Apache Kafka whose folders are copied, and replaced, between two of its starts."""

import asyncio
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.parity.brokers import Kafka, Profile

OFFSETS = "__consumer_offsets-*"
CLEANING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1000",
    "log.roll.ms": "300",
    "log.segment.delete.delay.ms": "2000",
}
"""The cleaner runs all the time, and finds closed segments."""
_STOP_S = 60


class MovingKafka(Kafka):
    """One broker and its log directory."""

    def __init__(
        self, release: str, folder: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(Profile({**CLEANING, **(settings or {})}, release), folder)
        self.log_dir = folder / "log"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self) -> None:
        """Start, and wait until groups are served."""
        asyncio.run(self.start())

    def stop(self) -> None:
        """In order, with all files in place."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_S)

    def is_cleaned(self) -> bool:
        """Whether the cleaner has been through all partitions that have closed segments."""
        path = self.log_dir / "cleaner-offset-checkpoint"
        text = path.read_text() if path.exists() else ""
        cleaned = dict(re.findall(r"^__consumer_offsets (\d+) (\d+)$", text, re.MULTILINE))
        for folder in self.log_dir.glob(OFFSETS):
            segments = sorted(folder.glob("*.log"))
            if len(segments) > 1 and int(cleaned.get(folder.name[19:], 0)) < int(segments[-1].stem):
                return False
        return True

    def copy_to(self, folder: Path, pattern: str) -> None:
        """Copy folders of partitions, with holes where they have some."""
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(self.log_dir.glob(pattern)):
            subprocess.run(["cp", "-r", "--sparse=always", source, folder], check=True)
