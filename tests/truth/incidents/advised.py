"""Follows advice: plays an incident, sets what `why` proposes, plays the incident again, and
compares the partition-seconds that nobody read with those that were predicted.
"""

import json
import re
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.clients.libraries import Library
from tests.clients.process import Worker
from tests.truth.incidents.meter import Meter
from tests.truth.incidents.stage import Stage

SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
"""The default of clients: members learn of a rebalance that late."""
NEAR_PART, NEAR_S = 0.2, 5.0
"""A fall is as predicted if it differs by less than a part of it, or by so many
partition-seconds."""

_SET: Final = re.compile(r"([a-z]+(?:\.[a-z]+)*\.(?:ms|records|strategy))=([\w.-]+)")
_INSTANCE: Final = "a group.instance.id for each member"
_FORETOLD: Final = re.compile(
    r"nobody read for (\d+(?:\.\d+)?) partition-seconds, it would have been (\d+(?:\.\d+)?)"
)
_PROPOSAL: Final = re.compile(r"Set .*?\.(?= |$)")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one piece of advice has somebody set, and the partition-seconds it tells."""

    settings: Mapping[str, str]
    now_s: float | None = None
    then_s: float | None = None


def proposals(texts: Iterable[str]) -> list[Proposal]:
    """Read advice as somebody does who follows it."""
    found = []
    for sentence in (each for text in texts for each in _PROPOSAL.findall(text)):
        settings = dict(_SET.findall(sentence))
        if _INSTANCE in sentence:
            settings["group.instance.id"] = "each"
        told = _FORETOLD.search(sentence)
        known = (float(told[1]), float(told[2])) if told else (None, None)
        proposal = Proposal(settings, *known)
        if settings and [proposal] != found[-1:]:  # both rebalances of an incident have the same
            found.append(proposal)
    return found


class Scene:
    """A group whose members have the settings that were proposed."""

    def __init__(self, client: Library, folder: Path, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._is_static = self._settings.pop("group.instance.id", None) is not None
        largest = self._settings.pop("group.max.session.timeout.ms", None)
        of_server = {} if largest is None else {"group.max.session.timeout.ms": largest}
        self.stage = Stage(client, folder, session_ms=SESSION_MS, settings=of_server)
        group = self.stage.group
        self.meter = Meter(
            lambda: self.stage.server.kafka, group.topic, len(group.partitions), self.stage.members
        )

    def join(self, name: str, **how: Any) -> Worker:
        """Start a member."""
        how = {"heartbeat__interval__ms": HEARTBEAT_MS, "static": self._is_static, **how}
        settings = dict(self._settings)
        if "session.timeout.ms" in settings:
            how["session_ms"] = int(settings.pop("session.timeout.ms"))
        if "max.poll.interval.ms" in settings:
            how["poll_ms"] = int(settings.pop("max.poll.interval.ms"))
        how |= {key.replace(".", "__"): value for key, value in settings.items()}
        return self.stage.join(name, **how)

    def settled(self, *names: str, calm_s: float = 0.0, **how: Any) -> list[Worker]:
        """Members that share the topic, for some time; from here on it counts."""
        members = [self.join(name, **how) for name in names]
        self.stage.group.settle(*members)
        self.stage.consumed(*members)
        time.sleep(calm_s)
        self.meter.begin()
        self.stage.now()
        return members

    def busy(self, member: Worker, seconds: float = 5.0) -> None:
        """Let a member work for so long between two polls."""
        self.meter.busy.add(member)

        def work() -> None:
            with suppress(Exception):  # it ends with the play
                while True:
                    member.ask("stall", seconds=seconds)
                    time.sleep(0.3)

        threading.Thread(target=work, daemon=True).start()

    def again(self, name: str, old: Worker, away_s: float = 0.0, **how: Any) -> Worker:
        """Start a member again, whose process ended."""
        time.sleep(away_s)
        if old in self.stage.members:
            self.stage.members.remove(old)
        return self.join(name, **how)

    def leader(self, members: Mapping[str, Worker]) -> str:
        """The name of the member that leads the group; of the first one if another leads it."""
        address = f"http://{self.stage.server.http}/api/v1/groups/{self.stage.group.name}"
        with urllib.request.urlopen(address, timeout=20) as answer:
            leader = str(json.load(answer)["leader"])
        return next((name for name in members if leader.startswith(name)), next(iter(members)))

    def steady(self, *members: Worker) -> None:
        """Wait until these members share the topic."""
        self.stage.settle(*members, seconds=90.0)


@dataclass(frozen=True, slots=True)
class Case:
    """An incident for which there is advice."""

    name: str
    client: Library
    begin: Callable[[Scene], None]

    @property
    def key(self) -> str:
        return f"{self.name}, {self.client.name}"


CASES: Final[list[Case]] = []


def case(name: str, *clients: Library) -> Callable[[Callable[[Scene], None]], Callable[..., None]]:
    """Add an incident for each of these clients."""

    def add(begin: Callable[[Scene], None]) -> Callable[[Scene], None]:
        CASES.extend(Case(name, each, begin) for each in clients)
        return begin

    return add


@dataclass(slots=True)
class Trial:
    """One play: what nobody read, and what was advised. `error`: why it could not be played."""

    unread_s: float = 0.0
    advice: list[str] = field(default_factory=list)
    error: str = ""


@dataclass(slots=True)
class Result:
    """All plays of a case, without and with the settings."""

    case: str
    client: str
    settings: dict[str, str] = field(default_factory=dict)
    predicted_s: float | None = None
    """The fall."""
    before: list[Trial] = field(default_factory=list)
    after: list[Trial] = field(default_factory=list)

    @property
    def errors(self) -> list[str]:
        return [each.error for each in (*self.before, *self.after) if each.error]

    @property
    def fell_s(self) -> float | None:
        """The fall, between the medians of the plays."""
        if not self.before or not self.after or self.errors:
            return None
        return median(x.unread_s for x in self.before) - median(x.unread_s for x in self.after)

    @property
    def verdict(self) -> str:
        """`no advice`, `failed`, `as predicted`, `fell`, or `rose`."""
        if self.errors:
            return "failed"
        if not self.settings or self.fell_s is None:
            return "no advice"
        if self.predicted_s is not None:
            near = max(NEAR_S, NEAR_PART * abs(self.predicted_s))
            if abs(self.fell_s - self.predicted_s) <= near:
                return "as predicted"
        return "fell" if self.fell_s > 0 else "rose"


def tried(case: Case, settings: Mapping[str, str]) -> Trial:
    """Play a case once."""
    folder = Path(tempfile.mkdtemp(prefix="groupkeeper-advice-"))
    try:
        scene = Scene(case.client, folder, settings)
        try:
            case.begin(scene)
            unread_s = scene.meter.end()
            return Trial(round(unread_s, 1), scene.stage.layers.advice())
        finally:
            scene.meter.close()
            scene.stage.close()
    except Exception as raised:  # noqa: BLE001  # one play's failure is not the end of all
        return Trial(error=f"{type(raised).__name__}: {raised}".splitlines()[0])
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)


def followed(case: Case, plays: int) -> Result:
    """Play a case without settings and with those that are proposed then, so many times each."""
    result = Result(case.name, case.client.name, before=[tried(case, {}) for _ in range(plays)])
    first = [proposals(each.advice) for each in result.before]
    chosen = next((each for each in first if each), [])
    for proposal in chosen:
        result.settings |= proposal.settings
    if result.settings:
        falls = [
            [p.now_s - p.then_s for p in each if p.now_s is not None and p.then_s is not None]
            for each in first
        ]
        known = [sum(each) for each in falls if each]
        result.predicted_s = round(median(known), 1) if known else None
        result.after = [tried(case, result.settings) for _ in range(plays)]
    return result


def stored(path: Path | None) -> list[Result]:
    """Results of earlier runs, without those that could not be played."""
    found: dict[tuple[str, str], Result] = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        with suppress(json.JSONDecodeError):
            row = json.loads(line)
            for key in ("before", "after"):
                row[key] = [Trial(**each) for each in row[key]]
            result = Result(**row)
            found[result.case, result.client] = result
    return [each for each in found.values() if not each.errors]


def line(result: Result) -> str:
    """A result as a line of JSON."""
    return json.dumps(asdict(result))
