"""Plays situations beside Apache Kafka, some at a time, and keeps each outcome as a line of JSON:
a run that was broken off goes on where it was.
"""

import json
import lzma
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.truth.observed import broker_log, observers, records
from tests.truth.observed.broker_log import GroupTruth, Reason
from tests.truth.observed.judging import NOT_PLAYED, PlayVerdict, judge
from tests.truth.observed.judging_epochs import judge_epochs
from tests.truth.observed.observers import Row
from tests.truth.observed.situations import Situation
from tests.truth.observed.stage import Deed, Site, Stage, now_ms
from tests.truth.observed.wave import Wave

AT_ONCE: Final = 4
"""Plays wait most of the time, but clients and brokers share the cores."""
OBSERVER, WHY = "observer", "why"
LAYERS: Final = (OBSERVER, WHY)
KEPT: Final = Path(__file__).parent / "kept.jsonl.xz"
"""Outcomes whose records are kept: a test for whoever changes what is inferred."""
_LATER_S: Final = 2.0
"""Time for the last records and lines."""
_OBSERVED_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one play. `told`: the rows of each layer; without any the play itself failed,
    for which `error` says why. `lines`: what the coordinator logged of the group; `records`: its
    records and commits in `__consumer_offsets`; `names`: of a consumer group, its topics by id.
    """

    situation: str
    client: str
    number: int
    seconds: float
    group: str = ""
    begun_ms: int = 0
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    deeds: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    records: list[list[Any]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.situation, self.client, self.number


Job = tuple[Situation, int]


def play(site: Site, situation: Situation, number: int, wave: Wave | None = None) -> Outcome:
    """Play a situation once, and ask both layers what happened. `wave`: what is played beside it,
    and has the same broker killed.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-observed-"))
    found = partial(Outcome, situation.name, situation.client.name, number)
    try:
        stage = Stage(situation.client, site, folder, is_fed=situation.is_fed, wave=wave)
        try:
            situation.begin(stage)
        finally:
            # Members stay until all is read: else their end would be told, too.
            outcome = _outcome(site, stage, found) if stage.begun_ms else None
            stage.close()
        assert outcome is not None
        return outcome(seconds=_since(began))
    except Exception as raised:  # noqa: BLE001  # one play's failure is not the end of all
        error = f"{type(raised).__name__}: {raised}".splitlines()[0]
        return found(seconds=_since(began), error=error)
    finally:
        if wave is not None:
            wave.leave()
        shutil.rmtree(folder, ignore_errors=True)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _outcome(site: Site, stage: Stage, found: Callable[..., Outcome]) -> Callable[..., Outcome]:
    time.sleep(_LATER_S)
    group, until_ms = stage.group.name, now_ms()
    lines = [each for each in site.cluster.log_lines() if group in each]
    generations = _written(broker_log.read(lines).get(group, GroupTruth()))

    def is_enough(rows: Sequence[Row]) -> bool:
        return generations <= {row.get("generation") for row in rows if row["kind"] == "round"}

    watched = observers.same_until(lambda: site.observer.why(group), is_enough, _OBSERVED_S)
    asked = observers.why(site.cluster.bootstrap, group)
    log_dir = site.cluster.log_dir(group)
    topic = stage.group.topic
    names = {id_: name for id_, name in records.topics_in(log_dir).items() if topic in name}
    return partial(
        found,
        group=group,
        begun_ms=stage.begun_ms,
        told={OBSERVER: ended_by(watched, until_ms), WHY: ended_by(asked, until_ms)},
        deeds=[asdict(each) for each in stage.deeds],
        lines=lines,
        records=records.recorded(log_dir, group, until_ms),
        names=names,
    )


def ended_by(rows: Sequence[Row], until_ms: int) -> list[Row]:
    """The entries of what had ended when the log was read, or at least begun: later ones cannot be
    judged by it.
    """

    def last_ms(row: Row) -> int:
        return row.get("ended_at_ms") or row.get("started_at_ms") or row.get("at_ms") or 0

    return [each for each in rows if last_ms(each) <= until_ms]


def _written(truth: GroupTruth) -> set[int]:
    return {each.generation for each in truth.rebalances.values() if each.ended} | {*truth.epochs}


def inferred_again(outcome: Outcome) -> Outcome:
    """The outcome with what today's code infers from the records of then."""
    if not outcome.records:
        return outcome
    rows = records.inferred(outcome.records, outcome.group, outcome.names)
    return replace(outcome, told=dict.fromkeys(LAYERS, rows))


def verdicts(outcome: Outcome, situation: Situation) -> dict[str, PlayVerdict]:
    """The verdict about each layer, by the rules of today."""
    truth = broker_log.read(outcome.lines).get(outcome.group, GroupTruth())
    deeds = [Deed(**each) for each in outcome.deeds]
    if outcome.error or missing(situation, truth, outcome.begun_ms):
        return {layer: PlayVerdict(NOT_PLAYED, []) for layer in LAYERS}
    found = {}
    for layer in LAYERS:
        rows = outcome.told[layer]
        found[layer] = (
            judge_epochs(rows, truth, deeds, outcome.begun_ms)
            if situation.is_consumer
            else judge(rows, truth, deeds, outcome.begun_ms, situation.unknowable, situation.harm)
        )
    return found


def missing(situation: Situation, truth: GroupTruth, begun_ms: int) -> list[str]:
    """What the coordinator's log lacks of what the situation is about."""
    happened = [*truth.consumer]
    for each in truth.rebalances.values():
        happened += [*each.also, *([each.first] if each.first else [])]
    later = [each for each in happened if each.at_ms >= begun_ms]
    return [
        f"{code}:{name}"
        for code, name in situation.needs
        if not any(_fits(each, code, name) for each in later)
    ]


def _fits(reason: Reason, code: str, name: str) -> bool:
    return (not code or reason.code == code) and (not name or reason.name == name)


# -- many ------------------------------------------------------------------------------------------


def read(path: Path) -> list[Outcome]:
    """Outcomes of earlier runs. A line that was not written to its end is left out."""
    found: dict[tuple[str, str, int], Outcome] = {}
    if not path.exists():
        return []
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    for line in text.splitlines():
        with suppress(json.JSONDecodeError):
            outcome = Outcome(**json.loads(line))
            found[outcome.key] = outcome
    return [*found.values()]


def keep(outcomes: Iterable[Outcome], path: Path) -> None:
    """Add outcomes to a compressed file, without what was told: `inferred_again` tells it anew."""
    known = {each.key: each for each in read(path)} | {each.key: each for each in outcomes}
    lines = [
        json.dumps(asdict(replace(each, told={})), separators=(",", ":")) + "\n"
        for _, each in sorted(known.items())
    ]
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=lzma.PRESET_EXTREME | 9))


def to_play(situations: Sequence[Situation], plays: int, done: Iterable[Outcome]) -> list[Job]:
    """What is left to play: the first play of all, then the second of all, and so on. They are
    mixed: a run that is broken off has something of everything.
    """
    played = {each.key for each in done if not each.error}
    jobs = list[Job]()
    for number in range(1, plays + 1):
        mixed = [each for each in situations if number == 1 or not each.is_once]
        random.Random(number).shuffle(mixed)
        jobs += [(each, number) for each in mixed]
    return [
        (situation, number)
        for situation, number in jobs
        if (situation.name, situation.client.name, number) not in played
    ]


Player = Callable[[Situation, int, Wave | None], Outcome]


def run(jobs: Sequence[Job], path: Path | None, at_once: int, player: Player) -> Iterator[Outcome]:
    """Play all, those whose broker is killed last, in waves of one situation; append each outcome
    to the file as soon as there is one.
    """
    writing = threading.Lock()

    def one(job: Job, wave: Wave | None = None) -> Outcome:
        outcome = player(*job, wave)
        if path is not None:
            with writing, path.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        return outcome

    calls = [partial(one, job) for job in jobs if not job[0].is_in_wave]
    yield from _at_once(calls, at_once)
    for chosen in waves([job for job in jobs if job[0].is_in_wave], at_once):
        wave = Wave(len(chosen))
        yield from _at_once([partial(one, job, wave) for job in chosen], len(chosen))


def waves(jobs: Iterable[Job], most: int) -> list[list[Job]]:
    """The jobs in waves of at most so many, each of one situation."""
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        by_name.setdefault(job[0].name, []).append(job)
    return [
        some[first : first + most]
        for some in by_name.values()
        for first in range(0, len(some), most)
    ]


def _at_once(calls: Sequence[Callable[[], Outcome]], at_once: int) -> Iterator[Outcome]:
    pool = ThreadPoolExecutor(at_once)
    try:
        for done in as_completed([pool.submit(call) for call in calls]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
