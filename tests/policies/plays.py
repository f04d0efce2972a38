"""Plays checks, some at a time, and keeps the outcome of each as a line of JSON, so that a run that
was broken off goes on where it was.
"""

import json
import shutil
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.policies.checks import Check

AT_ONCE: Final = 4
_TRIES: Final = 2
_LONGEST: Final = 400
"""Characters of a fault; all of it is in the logs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one check. `fault`: what was not as it has to be, or empty; `has_begun` is
    false if it did not come to what is checked.
    """

    number: str
    check: str
    client: str
    seconds: float
    fault: str = ""
    has_begun: bool = True

    @property
    def name(self) -> str:
        """Of a result of a suite."""
        return f"{self.number} {self.check}, {self.client}"


def play(check: Check, logs: Path | None = None) -> Outcome:
    """Play a check; again if it did not begin. `logs`: a folder for the files of one that failed,
    each in a folder with the name of the check.
    """
    outcome = _played(check, logs)
    for _ in range(_TRIES - 1):
        if not outcome.has_begun:
            outcome = _played(check, logs)
    return outcome


def _played(check: Check, logs: Path | None) -> Outcome:
    began = time.monotonic()
    fault, has_begun = "", False
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-policy-"))
    try:
        party = check.party(folder)
        try:
            check.begin(party)
        finally:
            has_begun = party.has_begun
            party.close()
    except Exception as raised:  # noqa: BLE001  # one play's failure is not the end of all
        fault = textwrap.shorten(f"{type(raised).__name__}: {raised}", _LONGEST)
        _keep(folder, logs and logs / check.key)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    seconds = round(time.monotonic() - began, 1)
    return Outcome(check.number, check.name, check.client.name, seconds, fault, has_begun)


def _keep(folder: Path, place: Path | None) -> None:
    if place is not None:
        with suppress(OSError):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder, place)


def read(path: Path) -> list[Outcome]:
    """Outcomes of earlier runs, the last of each check. A line that was not written to its end is
    left out.
    """
    found: dict[str, Outcome] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            outcome = Outcome(**json.loads(line))
            found[outcome.name] = outcome
    return [*found.values()]


def to_play(checks: Iterable[Check], done: Iterable[Outcome]) -> list[Check]:
    """Those that are not done, or failed."""
    passed = {each.name for each in done if not each.fault}
    return [each for each in checks if each.key not in passed]


def run(
    checks: Sequence[Check], path: Path, logs: Path | None = None, at_once: int = AT_ONCE
) -> Iterator[Outcome]:
    """Play all, and append each outcome to the file as soon as there is one."""
    writing = threading.Lock()

    def one(check: Check) -> Outcome:
        outcome = play(check, logs)
        with writing, path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        return outcome

    pool = ThreadPoolExecutor(at_once)
    try:
        for done in as_completed([pool.submit(one, each) for each in checks]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
