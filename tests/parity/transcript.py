"""Transcripts of conversations with a broker: what the text files of this folder say.

A file has a subject and holds many transcripts; each starts with `== ` and its title, and has a
group of its own on a broker that others use at the same time. Below the title: lines of `#` that
explain, headers (`covers: KIP-345, KIP-814`), then commands and what they led to::

    == A follower that rejoins unchanged is answered at once
    covers: KIP-345
    for v in 5-9
    > stable lea SAM
    = generation 2, leader lea-1

    > join SAM v=$v
    SAM <- JoinGroup: NONE generation_id=2 ...

`for v in 0-9` plays the transcript once with every version; an expected line of which only some
versions are true says so in front: `{0-6} SAM <- ...`. A line that starts with `~key:` is what
Groupkeeper answers in the place of the lines above it, on purpose: `differences.txt` has the
reason under that key. Lines that start with `event:` are ours alone, too: `happened.py` says what
they are. What the commands are is said in `commands.py`, how answers are written in `telling.py`;
nothing here talks to a broker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "transcripts"
DIFFERENCES = Path(__file__).parent / "differences.txt"

SHOWN_BY_TESTS = {
    "answers-in-order": "tests/apis/test_group_routes.py",
    "created-at-once": "tests/apis/test_metadata.py",
    "no-features": "tests/apis/test_discovery.py",
    "paused-process": "tests/connections/test_pause.py",
}
"""Deliberate differences that no transcript can show, and the tests that do."""
RESTARTED = ("failover", "shrunk", "stopped")
"""The profiles whose broker may be restarted."""
NOTHING = "nothing"
EVENT = "event: "

_VERSIONS = re.compile(r"for v in ((?:\d+(?:-\d+)?)(?:, *\d+(?:-\d+)?)*)")
_ONLY = re.compile(r"\{([\d, -]+)\} (.*)")
_OTHERWISE = re.compile(r"~([a-z0-9-]+): (.*)")


@dataclass(slots=True)
class Step:
    """A command and the lines that follow it."""

    command: str
    comments: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Transcript:
    """One of a file's conversations."""

    path: Path
    title: str
    line: int
    notes: list[str] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)
    on: str = "plain"
    versions: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.path.stem}: {self.title}"

    def runs(self) -> "list[Run]":
        """One for every version of a sweep, otherwise just one."""
        return [Run(self, version) for version in self.versions or [None]]

    def differences(self) -> set[str]:
        """The keys of what is answered differently on purpose."""
        lines = (line for step in self.steps for line in step.expected)
        texts = (only[2] if (only := _ONLY.match(line)) else line for line in lines)
        return {found[1] for text in texts if (found := _OTHERWISE.match(text))}


@dataclass(slots=True, frozen=True, eq=False)
class Run:
    """A transcript played with one version."""

    transcript: Transcript
    version: int | None

    @property
    def name(self) -> str:
        swept = "" if self.version is None else f" [v{self.version}]"
        return self.transcript.name + swept

    def commands(self) -> list[str]:
        return [self._filled(step.command) for step in self.transcript.steps]

    def expected(self, ours: bool) -> list[list[str]]:
        """What is to happen after each command: with Groupkeeper, or with Kafka."""
        return [self._lines(step.expected, ours) for step in self.transcript.steps]

    def events(self) -> list[list[str]]:
        """The events that each command leads to, without `event:`; none where none are written."""
        steps = (self._true(step.expected) for step in self.transcript.steps)
        return [[line.removeprefix(EVENT) for line in step if is_event(line)] for step in steps]

    def _true(self, written: list[str]) -> Iterator[str]:
        """The lines that are about this version."""
        for line in written:
            only = _ONLY.match(line)
            if not only or self.version in _numbers(only[1]):
                yield self._filled(only[2] if only else line)

    def _lines(self, written: list[str], ours: bool) -> list[str]:
        lines, others, differs = [], [], False
        for text in self._true(written):
            if is_event(text):
                continue
            otherwise = _OTHERWISE.match(text)
            if otherwise is None:
                lines.append(text)
                continue
            differs = True
            if otherwise[2] != NOTHING:
                others.append(otherwise[2])
        return others if ours and differs else lines

    def _filled(self, text: str) -> str:
        return text if self.version is None else text.replace("$v", str(self.version))


def is_event(line: str) -> bool:
    """Whether a line, maybe of some versions only, is about an event."""
    only = _ONLY.match(line)
    return (only[2] if only else line).startswith(EVENT)


def load(paths: list[Path] | None = None) -> list[Transcript]:
    """All transcripts of the files, or of all files. Raises ValueError for a file that is wrong."""
    found = sorted(FOLDER.glob("*.txt")) if paths is None else paths
    return [each for path in found for each in parse(path, path.read_text(encoding="utf-8"))]


def parse(path: Path, text: str) -> Iterator[Transcript]:
    """The transcripts of one file."""
    current: Transcript | None = None
    comments: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("== "):
            if current is not None:
                yield current
            current, comments = Transcript(path, line[3:].strip(), number), []
        elif current is not None and line.strip():
            comments = _take(current, line, comments, f"{path.name}:{number}")
    if current is not None:
        yield current


def _take(current: Transcript, line: str, comments: list[str], where: str) -> list[str]:
    """One line of a transcript; returns the comments that belong to the next command."""
    if line.startswith("#"):
        if current.steps:
            return [*comments, line]
        current.notes.append(line)
    elif line.startswith("> "):
        current.steps.append(Step(line[2:].strip(), comments))
        if line == "> restart_broker" and current.on not in RESTARTED:
            raise ValueError(f"{where}: only with 'on: {' or '.join(RESTARTED)}'")
        return []
    elif current.steps:
        current.steps[-1].expected.append(line)
    elif found := _VERSIONS.fullmatch(line):
        current.versions = _numbers(found[1])
    elif line.startswith("covers: "):
        current.covers = [each.strip() for each in line[8:].split(",")]
    elif line.startswith("on: "):
        current.on = line[4:].strip()
    else:
        raise ValueError(f"{where}: neither command, header nor comment: {line}")
    return comments


def _numbers(text: str) -> list[int]:
    """`0-3, 5` are five numbers."""
    ends = (each.strip().split("-") for each in text.split(","))
    return [number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]


def head_of(text: str) -> str:
    """What a file says before its first transcript."""
    return text.partition("\n== ")[0] if not text.startswith("== ") else ""


def written(head: str, transcripts: list[Transcript]) -> str:
    """The text of a file."""
    blocks = [head.strip()] if head.strip() else []
    blocks += [_block(each) for each in transcripts]
    return "\n\n\n".join(blocks) + "\n"


def _block(transcript: Transcript) -> str:
    lines = [f"== {transcript.title}", *transcript.notes]
    if transcript.covers:
        lines.append("covers: " + ", ".join(transcript.covers))
    if transcript.on != "plain":
        lines.append(f"on: {transcript.on}")
    if transcript.versions:
        lines.append(f"for v in {ranges(transcript.versions)}")
    for index, step in enumerate(transcript.steps):
        lines += [""] * bool(index) + [*step.comments, f"> {step.command}", *step.expected]
    return "\n".join(lines)


def ranges(numbers: list[int]) -> str:
    """The reverse of `0-3, 5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def merged(played: dict[int | None, list[str]]) -> list[str]:
    """The lines of all versions of a step as one text: what differs is marked with its versions."""
    said: dict[tuple[str, ...], list[int]] = {}
    for version, lines in played.items():
        if version is None:
            return lines
        said.setdefault(tuple(lines), []).append(version)
    if len(said) == 1:
        return list(next(iter(said)))
    return [f"{{{ranges(of)}}} {line}" for lines, of in said.items() for line in lines]


def reasons() -> dict[str, str]:
    """Key and reason of every deliberate difference, from `differences.txt`."""
    blocks = DIFFERENCES.read_text(encoding="utf-8").split("\n\n")
    rows = (block.split(":", 1) for block in blocks if not block.startswith("#") and block.strip())
    return {key.strip(): " ".join(text.split()) for key, text in rows}
