"""Plays incidents, many at a time, and keeps the outcome of each play as a line of JSON, so that a
run that was broken off goes on where it was.
"""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.truth.incidents.layers import Heard
from tests.truth.incidents.stage import Stage
from tests.truth.incidents.truths import Incident
from tests.truth.incidents.verdicts import judge

AT_ONCE: Final = 5 * (os.cpu_count() or 1)
"""Plays wait most of the time."""
NOT_PLAYED: Final = "not played"
_TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one play. `layers`: verdict, reasons for it, and what was told; without any
    the play itself failed, for which `error` says why.
    """

    incident: str
    client: str
    number: int
    seconds: float
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    error: str = ""

    def verdict(self, layer: str) -> str:
        """The verdict about a layer."""
        return str(self.layers[layer]["verdict"]) if self.layers else NOT_PLAYED

    @property
    def key(self) -> tuple[str, str, int]:
        return self.incident, self.client, self.number


Job = tuple[Incident, int]


def play(incident: Incident, number: int) -> Outcome:
    """Play an incident once, and judge what is told; again if the play itself failed."""
    outcome = _played(incident, number)
    for _ in range(_TRIES - 1):
        if outcome.error:
            outcome = _played(incident, number)
    return outcome


def _played(incident: Incident, number: int) -> Outcome:
    began = time.monotonic()
    layers, error = dict[str, dict[str, Any]](), ""
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-incident-"))
    try:
        stage = Stage(incident.client, folder, **incident.stage)
        try:
            incident.begin(stage)
            for layer, heard in stage.layers.hear(folder / "copy").items():
                layers[layer] = asdict(judge(incident, layer, heard)) | heard.as_json()
        finally:
            stage.close()
    except Exception as raised:  # noqa: BLE001  # one play's failure is not the end of all
        error = f"{type(raised).__name__}: {raised}".splitlines()[0]
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    seconds = round(time.monotonic() - began, 1)
    return Outcome(incident.name, incident.client.name, number, seconds, layers, error)


def judged_again(outcome: Outcome, incident: Incident) -> Outcome:
    """The outcome with the verdicts of today: whoever corrects a truth need not play it again."""
    layers = {}
    for layer, told in outcome.layers.items():
        heard = Heard(
            [(code, reason) for code, reason in told["pairs"]],
            [(code, reason) for code, reason in told["events"]],
            told["sentences"],
        )
        layers[layer] = asdict(judge(incident, layer, heard)) | heard.as_json()
    return replace(outcome, layers=layers)


def read(path: Path) -> list[Outcome]:
    """Outcomes of earlier runs. A line that was not written to its end is left out."""
    found: dict[tuple[str, str, int], Outcome] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            outcome = Outcome(**json.loads(line))
            found[outcome.key] = outcome
    return [*found.values()]


def to_play(incidents: Sequence[Incident], plays: int, done: Iterable[Outcome]) -> list[Job]:
    """What is left to play: the first play of all, then the second of all, and so on."""
    played = {each.key for each in done if each.layers}
    jobs = [(each, number) for number in range(1, plays + 1) for each in incidents]
    return [
        (incident, number)
        for incident, number in jobs
        if (incident.name, incident.client.name, number) not in played
    ]


def run(
    jobs: Sequence[Job],
    path: Path | None,
    at_once: int = AT_ONCE,
    player: Callable[[Incident, int], Outcome] = play,
) -> Iterator[Outcome]:
    """Play all, and append each outcome to the file as soon as there is one."""
    writing = threading.Lock()

    def one(job: Job) -> Outcome:
        outcome = player(*job)
        if path is not None:
            with writing, path.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        return outcome

    pool = ThreadPoolExecutor(at_once)
    try:
        for done in as_completed([pool.submit(one, job) for job in jobs]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
