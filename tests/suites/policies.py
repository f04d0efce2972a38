"""Policies of groups, played with real clients: the checks are in `tests/policies`."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.policies.catalogue import CHECKS
from tests.policies.clients import CLIENTS
from tests.policies.plays import Outcome, read, run, to_play
from tests.policies.table import lines
from tests.suites import versions
from tests.suites.suite import Outcome as Verdict
from tests.suites.suite import Result, Results, Suite, Target
from tests.truth.foreign import make
from tests.truth.incidents.connect import class_path

_ROOT = Path(__file__).parents[2]
_CODE = ("coordinator", "protocol", "storage", "groupkeeper", "tests/policies", "tests/truth")
_PLAYED = "outcomes.jsonl"


_LATE_LEADERS = ("aiokafka-*", "java-*", "franz-go-* cooperative-sticky")
_LATE = (
    "the rebalance is at once, but the client's leader does not know of the new partitions yet: it "
    "assigns them when it has looked for itself (29c)"
)


class Policies(Suite):
    """Each check has a server of its own. What passed in a run that was broken off is not played
    again, as long as the code is the same.
    """

    name = "policies"
    about = "policies with every client: seats, spares, windows, steps; and nobody else stops"
    needs = ("java", "javac", "mvn", "go", "node", "npm")
    versions: ClassVar = {
        "kafka-python": "2.3.3, 3.0.12",
        "aiokafka": "0.14",
        "confluent-kafka": "2.16",
        "org.apache.kafka:kafka-clients": f"2.8.2, {versions.KAFKA}",
        "org.apache.kafka:kafka-streams, connect-runtime": versions.KAFKA,
        "franz-go": versions.FRANZ_GO,
        "sarama": versions.SARAMA,
        "kafkajs": versions.KAFKAJS,
    }
    limit_s = 5_400.0
    known: ClassVar = {
        **dict.fromkeys((f"29b *, {each}" for each in _LATE_LEADERS), _LATE),
        "29d *, * cooperative-sticky": "a normal rebalance: its assignor has data of its own in "
        "the metadata, with the generation, so that this has changed",
        "6 *, kafkajs-*": "a normal rebalance, in which its leader gives each of its own topics to "
        "all members, also to those that do not subscribe to it",
    }

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def prepare(self, folder: Path) -> None:
        make(each.library for each in CLIENTS)
        class_path()

    def run(self, target: Target, folder: Path) -> Results:
        until = time.monotonic() + self.limit_s
        place = folder / f"{_digest()}-{_PLAYED}"
        self._outcomes = {each.name: each for each in read(place)}
        left = to_play(CHECKS, self._outcomes.values())
        for name in {each.key for each in CHECKS} - {each.key for each in left}:
            yield _result(self._outcomes[name])
        for outcome in run(left, place, folder / "failed"):
            self._outcomes[outcome.name] = outcome
            yield _result(outcome)
            if time.monotonic() > until:
                break
        missing = [each.key for each in CHECKS if each.key not in self._outcomes]
        for name in missing:
            yield Result(name, Verdict.FAILED, detail="not played: the time was up")
        if not missing:
            place.replace(folder / _PLAYED)

    def summary(self) -> Sequence[str]:
        told = {each.name: each.fault for each in self._outcomes.values()}
        return ["", *lines(told)]


def _result(outcome: Outcome) -> Result:
    verdict = Verdict.FAILED if outcome.fault else Verdict.PASSED
    return Result(outcome.name, verdict, outcome.seconds, outcome.fault)


def _digest() -> str:
    """Of the code that decides what becomes of a play."""
    files = sorted(path for each in _CODE for path in (_ROOT / each).rglob("*.*"))
    kinds = {".py", ".go", ".java", ".mjs"}
    whole = b"".join(path.read_bytes() for path in files if path.suffix in kinds)
    return hashlib.sha256(whole).hexdigest()[:12]
