"""Plays every situation, and prints what is stored about it beside what should be.

    python -m tests.truth                    all: the transcripts, and real clients
    python -m tests.truth transcripts        those in memory alone
    python -m tests.truth killed java        real clients whose situation or library has these words
    python -m tests.truth --verbose ...      and all events of the situations that are wrong
    python -m tests.truth incidents --help   incidents, and whether what is told of them is true
    python -m tests.truth observed --help    situations beside Apache Kafka, and what is inferred
    python -m tests.truth losses             records of Apache Kafka that an observer cannot read
    python -m tests.truth advice --help      advice that is followed, and what becomes of it

Exit code 1: something is wrong.
"""

import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.parity import happened, virtual
from tests.parity.transcript import Run, load
from tests.truth.catalogue import SITUATIONS
from tests.truth.incidents import advised_command, command
from tests.truth.observed import command as observed_command
from tests.truth.observed import losses
from tests.truth.play import Play, Situation

AT_ONCE = 4
"""Most situations wait most of the time."""
TRANSCRIPTS = "transcripts"


@dataclass(slots=True)
class Verdict:
    """What was found. `told`: more, for whoever wonders why it is wrong."""

    situation: str
    client: str
    expected: list[str]
    found: list[str]
    told: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return self.found == self.expected


def judge(situation: Situation, folder: Path) -> Verdict:
    """Play a situation with real clients."""
    expected, found, told = list(situation.expected), ["nothing"], list[str]()
    try:
        play = Play(situation, folder)
        try:
            situation.begin(play)
            found = play.found()
            told = play.lines()
        finally:
            play.close()
    except Exception as error:  # noqa: BLE001  # one situation's failure is not the end
        found = [f"{type(error).__name__}: {error}".splitlines()[0]]
    return Verdict(situation.name, situation.client.name, expected, found, told)


def judge_run(run: Run) -> Verdict:
    """Play a transcript in memory."""
    lines = sum(len(each) for each in run.events())
    try:
        played = virtual.play(run)
        told = happened.difference(run.commands(), run.events(), played.events, played.names)
    except Exception as error:  # noqa: BLE001  # as above
        told = [f"{type(error).__name__}: {error}"]
    return Verdict(run.transcript.name, "by hand", [f"{lines} lines"], told or [f"{lines} lines"])


def main(words: list[str]) -> int:
    """Play what is chosen; 0 if all of it is right."""
    if words[:1] == ["incidents"]:
        return command.main(words[1:])
    if words[:1] == ["observed"]:
        return observed_command.main(words[1:])
    if words[:1] == ["losses"]:
        return losses.main(words[1:])
    if words[:1] == ["advice"]:
        return advised_command.main(words[1:])
    verbose = "--verbose" in words
    words = [word for word in words if not word.startswith("--")]
    console = Console(width=None if sys.stdout.isatty() else 180)
    began = time.monotonic()
    verdicts: list[Verdict] = []
    if not words or TRANSCRIPTS in words:
        runs = [run for each in load() for run in each.runs() if any(run.events())]
        verdicts += [judge_run(run) for run in runs]
        _show_transcripts(verdicts, console)
    chosen = [each for each in SITUATIONS if not words or _is_meant(each, words)]
    if usable := [each for each in chosen if not each.client.unusable]:
        played = _play(usable)
        _show(played, console, verbose)
        verdicts += played
    for client in {each.client for each in chosen if each.client.unusable}:
        console.print(f"left out: {client.name}: {client.unusable}")
    wrong = sum(not each.is_right for each in verdicts)
    names = len({each.situation for each in verdicts})
    seconds = time.monotonic() - began
    console.print(
        f"{names} situations, played {len(verdicts)} times in {seconds:.0f} s: "
        + ("all right" if not wrong else f"{wrong} wrong"),
        highlight=False,
    )
    return 1 if wrong or not verdicts else 0


def _is_meant(situation: Situation, words: list[str]) -> bool:
    text = f"{situation.name} {situation.client.name}"
    return all(word in text for word in words)


def _play(situations: list[Situation]) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="groupkeeper-truth-") as folder:
        places = [Path(folder) / str(number) for number in range(len(situations))]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(judge, situations, places))


def _show_transcripts(verdicts: list[Verdict], console: Console) -> None:
    table = Table("transcript", "runs", "events", "", title="Transcripts, on the server in memory")
    runs = Counter(each.situation for each in verdicts)
    wrong = Counter(each.situation for each in verdicts if not each.is_right)
    lines = {each.situation: each.expected[0].split()[0] for each in verdicts}
    for name, count in runs.items():
        table.add_row(name, str(count), lines[name], "wrong" if wrong[name] else "right")
    console.print(table)
    for each in verdicts:
        if not each.is_right:
            console.print("\n".join([each.situation, *each.found]), markup=False)


def _show(verdicts: list[Verdict], console: Console, verbose: bool) -> None:
    table = Table("situation", "client", "expected", "found", "", title="Real clients")
    for each in verdicts:
        same = each.is_right
        found = "the same" if same else "\n".join(each.found)
        right = "right" if same else "wrong"
        table.add_row(each.situation, each.client, "\n".join(each.expected), found, right)
    console.print(table, markup=False)
    for each in verdicts:
        if verbose and not each.is_right:
            console.print(
                "\n".join([f"{each.situation}, {each.client}:", *each.told]), markup=False
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
