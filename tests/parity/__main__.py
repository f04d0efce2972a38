"""Plays the transcripts on Apache Kafka and on Groupkeeper, over the wire, and compares.

`make parity` plays all; `make parity ARGS="join-group -k static"` those of some files and
titles. `rights` and `logins` are no files: see secured.py. `--record` writes down what Kafka
answers: for new transcripts, whose difference is then reviewed like code. Exit code 1 when
something differs, 2 when it cannot be compared.
"""

import argparse
import asyncio
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.parity.brokers import PROFILES, Broker, Groupkeeper, Kafka, UnavailableError, dial_to
from tests.parity.compare import difference
from tests.parity.people import names_of
from tests.parity.player import REAL, RECORDING, Patience, Player
from tests.parity.secured import SECTIONS, compared
from tests.parity.transcript import (
    FOLDER,
    SHOWN_BY_TESTS,
    Run,
    Transcript,
    head_of,
    is_event,
    load,
    merged,
    written,
)

RESULTS = Path(__file__).parent / "RESULTS.json"
AT_ONCE = 24
TRIES = 3
_numbers = itertools.count()


class Stage:
    """One broker with the transcripts of its profile, which are played side by side."""

    def __init__(self, broker: Broker, ours: bool, patience: Patience) -> None:
        self.broker = broker
        self._ours = ours
        self._patience = patience
        self._coming: set[Run] = set()
        self._restarted = asyncio.Event()

    async def play(self, run: Run) -> list[list[str]]:
        prefix = f"p{int(time.time()) % 1_000_000}x{next(_numbers)}."
        names = names_of(prefix, self.broker.port)
        wall = lambda: int(time.time() * 1000)  # noqa: E731
        player = Player(run, names, dial_to(self.broker.port), self._patience, wall)
        player.restart = lambda: self._restart(run)
        try:
            return await player.play(run.expected(self._ours))
        finally:
            player.close()
            await self._leave(run)

    def expect(self, runs: list[Run]) -> None:
        """Those that want a restart wait for each other: the broker is restarted once, for all."""
        self._coming = {run for run in runs if "restart_broker" in run.commands()}

    async def _restart(self, run: Run) -> None:
        await self._leave(run)
        await self._restarted.wait()

    async def _leave(self, run: Run) -> None:
        if run not in self._coming:
            return
        self._coming.discard(run)
        if not self._coming:
            try:
                await self.broker.restart()
            finally:  # without a broker they fail; nobody waits for ever
                self._restarted.set()


async def check(stage: Stage, run: Run, ours: bool) -> tuple[list[str], int]:
    """The differences that stay after some tries, and how many tries it took."""
    told: list[str] = []
    tries = 1 if "restart_broker" in run.commands() else TRIES
    for attempt in range(1, tries + 1):
        try:
            played = await stage.play(run)
        except Exception as error:  # noqa: BLE001  # one transcript's failure is not the end
            told = [f"    {type(error).__name__}: {error}"]
            continue
        told = difference(run.commands(), run.expected(ours), played)
        if not told:
            return [], attempt
    return told, tries


def main() -> int:
    options = _options()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 200)
    try:
        chosen, sections = _chosen(options)
        if options.record:
            for name in sections:
                SECTIONS[name].record()
            return asyncio.run(record(chosen, console))
        if options.write and (options.on != "both" or len(chosen) not in (0, len(load()))):
            raise ValueError("only the figures of all transcripts on both brokers are kept")
        rows, failed = asyncio.run(compare(chosen, options.on, console))
        for name in sections:
            more_rows, more_failed = secured(name, options.on)
            rows, failed = rows + more_rows, failed + more_failed
    except (UnavailableError, ValueError) as error:
        console.print(f"[red]{error}", markup=True, highlight=False)
        return 2
    report(chosen, rows, failed, console)
    if options.write:
        RESULTS.write_text(json.dumps({"headings": HEADINGS, "rows": kept(rows)}, indent=1) + "\n")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make parity", description=__doc__)
    which = f"files of transcripts, without .txt, or {' or '.join(SECTIONS)}"
    parser.add_argument("subjects", nargs="*", help=which)
    parser.add_argument("-k", default="", help="a part of the title")
    parser.add_argument("--on", choices=["kafka", "groupkeeper", "both"], default="both")
    parser.add_argument("--write", action="store_true", help="keep the figures for the docs")
    parser.add_argument("--record", action="store_true", help="write down what Kafka answers")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> tuple[list[Transcript], list[str]]:
    """The transcripts, and the names of sections."""
    files = [subject for subject in options.subjects if subject not in SECTIONS]
    sections = [name for name in SECTIONS if name in options.subjects]
    if sections and not files:
        return [], sections
    if not options.subjects and not options.k and not options.record:
        sections = list(SECTIONS)
    paths = [FOLDER / f"{subject}.txt" for subject in files] or None
    if paths and (missing := [path.name for path in paths if not path.exists()]):
        raise ValueError(f"no such transcripts: {', '.join(missing)}")
    found = [each for each in load(paths) if options.k.lower() in each.title.lower()]
    if not found:
        raise ValueError("no transcript has such a title")
    if unknown := {each.on for each in found} - set(PROFILES):
        raise ValueError(f"no such profile: {', '.join(sorted(unknown))}")
    return found, sections


# -- comparing -------------------------------------------------------------------------------------


HEADINGS = ("broker", "profile", "transcripts", "runs", "equal", "after a retry")


async def compare(
    transcripts: list[Transcript], on: str, console: Console
) -> tuple[list[tuple[str, ...]], list[str]]:
    """A row of figures for each broker, and what differs, in words."""
    kinds = _kinds(on)
    failed: list[str] = []
    rows: list[tuple[str, ...]] = []
    by_profile: dict[str, list[Transcript]] = defaultdict(list)
    for transcript in transcripts:
        by_profile[transcript.on].append(transcript)
    runs = sum(len(each.runs()) for each in transcripts) * len(kinds)
    with _progress(console) as progress:
        task = progress.add_task("playing", total=runs)
        for profile, there in by_profile.items():
            for kind in kinds:
                results = await _staged(kind, profile, there, lambda: progress.advance(task))
                equal = [tries for told, tries in results.values() if not told]
                failed += [_report(kind, run, told) for run, (told, _) in results.items() if told]
                retried = sum(tries > 1 for tries in equal)
                figures = (len(there), len(results), len(equal), retried)
                rows.append((_named(kind, profile), profile, *map(str, figures)))
    return rows, failed


def _kinds(on: str) -> list[str]:
    return [name for name in ("kafka", "groupkeeper") if on in (name, "both")]


def secured(name: str, on: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """The same of a section, each case of which is one run."""
    rows, failed = [], []
    for kind in _kinds(on):
        count, differs = compared(name, kind)
        figures = count, count, count - len(differs), 0
        rows.append((_named(kind, "plain"), name, *map(str, figures)))
        failed += [f"{kind} differs in {name}, {each}\n" for each in differs]
    return rows, failed


def kept(rows: list[tuple[str, ...]]) -> list[Sequence[str]]:
    """These rows, and of those that were kept before the ones about other profiles."""
    before = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    new = {row[:2]: row for row in rows}
    known = [tuple(row[:2]) for row in before]
    replaced = [new.get(key, row) for key, row in zip(known, before, strict=True)]
    return [*replaced, *(row for key, row in new.items() if key not in known)]


def report(
    transcripts: list[Transcript], rows: list[tuple[str, ...]], failed: list[str], errors: Console
) -> None:
    """What differs to the error output, the figures to the output."""
    for text in failed:
        errors.print(text, markup=False, highlight=False, soft_wrap=True)
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row)
    output = Console()
    output.print(table)
    keys = set(SHOWN_BY_TESTS).union(*(each.differences() for each in transcripts))
    verdict = "all equal" if not failed else f"{len(failed)} differ"
    runs = sum(int(row[3]) for row in rows)
    cases = sum({row[1]: int(row[2]) for row in rows if row[1] in SECTIONS}.values())
    what = f"{len(transcripts)} transcripts and {cases} cases, {runs} runs"
    output.print(f"{what}: {verdict}", highlight=False)
    output.print(
        f"deliberate differences: {len(keys)} ({', '.join(sorted(keys))})", highlight=False
    )


def _named(kind: str, profile: str) -> str:
    return "groupkeeper" if kind == "groupkeeper" else f"Apache Kafka {PROFILES[profile].release}"


def _report(kind: str, run: Run, told: list[str]) -> str:
    where = f"{run.transcript.path.name}:{run.transcript.line}"
    return "\n".join([f"{kind} differs in {where}, {run.name}", *told, ""])


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


async def _staged(
    kind: str, profile: str, transcripts: list[Transcript], advance: "object"
) -> dict[Run, tuple[list[str], int]]:
    ours = kind == "groupkeeper"
    results: dict[Run, tuple[list[str], int]] = {}
    async with Opened(kind, profile, REAL) as stage:
        gate = asyncio.Semaphore(_at_once(profile))
        runs = [run for each in transcripts for run in each.runs()]
        stage.expect(runs)

        async def one(run: Run) -> None:
            async with gate:
                results[run] = await check(stage, run, ours)
            advance()  # type: ignore[operator]

        await asyncio.gather(*map(one, runs))
    return results


def _at_once(profile: str) -> int:
    """All, where those that want a restart wait for each other."""
    return AT_ONCE if PROFILES[profile].restarted is None else 1_000


class Opened:
    """A broker of a profile, in a folder of its own, for the time of a `with`."""

    def __init__(self, kind: str, profile: str, patience: Patience) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"groupkeeper-parity-{kind}-"))
        maker = Groupkeeper if kind == "groupkeeper" else Kafka
        try:
            self._broker: Broker = maker(PROFILES[profile], self._folder)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._stage = Stage(self._broker, kind == "groupkeeper", patience)

    async def __aenter__(self) -> Stage:
        await self._broker.start()
        return self._stage

    async def __aexit__(self, *_: object) -> None:
        self._broker.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


# -- recording -------------------------------------------------------------------------------------


async def record(transcripts: list[Transcript], console: Console) -> int:
    """Writes what Kafka answers; lines that Groupkeeper answers otherwise are left as they are."""
    by_profile: dict[str, list[Transcript]] = defaultdict(list)
    for transcript in transcripts:
        by_profile[transcript.on].append(transcript)
    for profile, there in by_profile.items():
        async with Opened("kafka", profile, RECORDING) as stage:
            gate = asyncio.Semaphore(_at_once(profile))
            runs = {id(each): each.runs() for each in there}
            stage.expect([run for each in runs.values() for run in each])
            recorded = (_recorded(stage, each, runs[id(each)], gate) for each in there)
            failed = await asyncio.gather(*recorded, return_exceptions=True)
        for each, error in zip(there, failed, strict=True):
            if error is not None:
                console.print(f"{each.name}: {error}", markup=False, highlight=False)
    for path in {each.path for each in transcripts}:
        whole = {each.line: each for each in load([path])}
        whole |= {each.line: each for each in transcripts if each.path == path}
        text = path.read_text(encoding="utf-8")
        path.write_text(written(head_of(text), list(whole.values())), encoding="utf-8")
        console.print(f"recorded {path.name}", highlight=False)
    return 0


async def _recorded(
    stage: Stage, transcript: Transcript, runs: list[Run], gate: asyncio.Semaphore
) -> None:
    async def one(run: Run) -> tuple[int | None, list[list[str]]]:
        async with gate:
            return run.version, await stage.play(run)

    played = dict(await asyncio.gather(*map(one, runs)))
    for index, step in enumerate(transcript.steps):
        ours = [line for line in step.expected if is_event(line) or "~" in line.partition(":")[0]]
        step.expected = merged({version: lines[index] for version, lines in played.items()}) + ours


if __name__ == "__main__":
    sys.exit(main())
