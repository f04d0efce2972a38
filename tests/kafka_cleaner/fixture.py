"""What Kafka's cleaner made of some logs, kept as files, so that `make test` needs no Java.

A folder for each round: the closed segments in `before`, what was left of them in `after`, and the
rest in `job.json`.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.kafka_cleaner.rounds import Job

PLACE = Path(__file__).parent.parent / "fixtures" / "kafka-cleaner"


def write(name: str, job: Job, after: dict[int, bytes], next_dirty: int) -> None:
    folder = PLACE / name
    for part, segments in (("before", job.segments), ("after", after)):
        (folder / part).mkdir(parents=True)
        for base, data in segments.items():
            (folder / part / f"{base:020d}.log").write_bytes(data)
    fields = asdict(job)
    del fields["segments"]
    text = json.dumps({**fields, "next_dirty": next_dirty}, indent=2)
    (folder / "job.json").write_text(f"{text}\n", encoding="utf-8")


def names() -> list[str]:
    return sorted(each.parent.name for each in PLACE.glob("*/job.json"))


def read(name: str) -> tuple[Job, dict[int, bytes], int]:
    """A job, what was left, and the next first dirty offset."""
    folder = PLACE / name
    fields = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    next_dirty = fields.pop("next_dirty")
    return (
        Job(dict(_segments(folder / "before")), **fields),
        dict(_segments(folder / "after")),
        (next_dirty),
    )


def _segments(folder: Path) -> Iterator[tuple[int, bytes]]:
    for path in sorted(folder.glob("*.log")):
        yield int(path.stem), path.read_bytes()
