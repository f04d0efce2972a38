"""Results from lines of JSON in the form of Go's test2json, whoever prints them.

One object a line: `{"Action": "run" | "output" | "pass" | "fail" | "skip", "Test": NAME}`, with
`Elapsed` in seconds and `Output`, a text. Everything else is passed over.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypedDict, cast

from tests.suites.process import Lines
from tests.suites.suite import Outcome, Result

DETAIL_LINES = 12
_ENDS = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
# What frames a test's own words: `=== RUN`, `--- FAIL: Name (0.00s)`.
_FRAME = re.compile(r"\s*(===|---) ")
_PLACE = re.compile(r"^\w+\.\w+:\d+: ")


class Event(TypedDict, total=False):
    """What one line says."""

    Action: str
    Test: str
    Elapsed: float
    Output: str


@dataclass(slots=True)
class _Running:
    """Tests that began and have not ended, with what they printed so far."""

    output: dict[str, list[str]] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self.output[name] = []

    def add(self, name: str, text: str) -> None:
        self.output.setdefault(name, []).append(text)

    def end(self, name: str, outcome: Outcome, seconds: float = 0.0) -> Result:
        text = "".join(self.output.pop(name, [])).splitlines()
        said = [_PLACE.sub("", line.strip()) for line in text if not _FRAME.match(line)]
        said = [line for line in said if line]
        # why a test skips itself is the first thing it says; what broke it is near the end
        kept = {Outcome.PASSED: [], Outcome.SKIPPED: said[:1], Outcome.FAILED: said[-DETAIL_LINES:]}
        return Result(name, outcome, seconds, "\n".join(kept[outcome]))


def results(lines: Iterable[str]) -> Iterator[Result]:
    """A Result for each test that ended, then one for each that was cut off.

    A whole test (`A`) that has parts (`A/b`) is told only if it failed and none of its parts did.
    """
    running = _Running()
    split: set[str] = set()
    faulty: set[str] = set()
    for line in lines:
        event = _event(line)
        name, action = event.get("Test", ""), event.get("Action", "")
        whole, _, part = name.partition("/")
        if action == "output" and name:
            running.add(name, event.get("Output", ""))
        elif action == "run":
            running.begin(name)
            split |= {whole} if part else set()
        elif action in _ENDS and name:
            result = running.end(name, _ENDS[action], event.get("Elapsed", 0.0))
            failed = result.outcome is Outcome.FAILED
            faulty |= {whole} if failed and part else set()
            if name not in split or (failed and name not in faulty):
                yield result
    left = list(running.output)
    for name in [each for each in left if not any(o.startswith(f"{each}/") for o in left)]:
        result = running.end(name, Outcome.FAILED)
        yield replace(result, detail=f"cut off\n{result.detail}".strip())


def outcomes(
    lines: Lines, name: str, *, ends_well: bool = False, hear: Callable[[str], None] | None = None
) -> Iterator[Result]:
    """The results of a program, and a failure called `name` if it told none, was cut off, or, where
    it `ends_well`, ended with an exit code. `hear` is given every line.
    """
    told = False
    for result in results(_heard(lines, hear)):
        told = True
        yield result
    code = f"exit code {lines.returncode}"
    if not told:
        yield Result(name, Outcome.FAILED, detail=f"told nothing ({code}): see run.log")
    elif lines.cut_off:
        yield Result(name, Outcome.FAILED, detail="cut off: see run.log")
    elif ends_well and lines.returncode:
        yield Result(name, Outcome.FAILED, detail=f"{code}: see run.log")


def _heard(lines: Iterable[str], hear: Callable[[str], None] | None) -> Iterator[str]:
    for line in lines:
        if hear is not None:
            hear(line)
        yield line


def _event(line: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        return Event()
    return cast(Event, event) if isinstance(event, dict) else Event()
