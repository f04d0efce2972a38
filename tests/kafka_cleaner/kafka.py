"""Apache Kafka's own cleaner, in a process of its own."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka_cleaner.rounds import Job
from tests.support.raw_batches import plain

KEYS_IN_MAP = 10_000
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROGRAM = Path(__file__).parent / "CleanFolders.java"


class KafkaFailedError(Exception):
    """Kafka's cleaner ended; the text is what it said."""


class KafkaCleaner:
    """Cleans folders as a broker does that was started on them."""

    def __init__(self, class_path: str, place: Path) -> None:
        """`class_path`: Kafka's jars. `place` is a folder for its data and for our program."""
        classes = place / "classes"
        classes.mkdir(parents=True, exist_ok=True)
        compiler = ["javac", "--release", "17", "-cp", class_path, "-d", str(classes)]
        subprocess.run([*compiler, str(_PROGRAM)], check=True, timeout=120)
        self._folder = place / "orders-0"
        self._process = subprocess.Popen(
            ["java", *_JAVA, "-cp", f"{classes}:{class_path}", "CleanFolders"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def clean(self, job: Job) -> tuple[dict[int, bytes], int]:
        """The segments that are left, by base offset, and the next first dirty offset.

        Raises KafkaFailedError.
        """
        self._write(job)
        words = (
            *(self._folder, job.now_ms, job.first_dirty, job.retention_ms),
            *(job.expiration_ms, job.segment_bytes, KEYS_IN_MAP, min(job.segments)),
        )
        next_dirty = self._ask("\t".join(map(str, words)))
        files = {int(each.stem): each.read_bytes() for each in self._folder.glob("*.log")}
        del files[job.end]
        return dict(sorted(files.items())), next_dirty

    def _write(self, job: Job) -> None:
        """Only segments: a broker that starts on them makes the rest. The last one is active."""
        self._folder.mkdir(exist_ok=True)
        for old in self._folder.iterdir():
            old.unlink()
        active = plain(job.end, (b"active", b"segment"), time=job.now_ms)
        for base, data in {**job.segments, job.end: active}.items():
            (self._folder / f"{base:020d}.log").write_bytes(data)

    def _ask(self, line: str) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise KafkaFailedError(process.stderr.read())
        return int(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
