"""Situations that chance makes: several things happen to a group, some of them at once.

What was done is decided by the seed alone; what became of it, the coordinator's log says.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.clients.libraries import CONFLUENT, Library
from tests.clients.process import Worker
from tests.truth.foreign import JAVA
from tests.truth.observed.situations import FOUR, situation
from tests.truth.observed.stage import Stage

SEEDS: Final = 80
BY_CHANCE: Final = "by chance"
_PAUSES_S: Final = (0.5, 1.0, 3.0, 6.0, 12.0)
_STEPS: Final = (2, 5)
_POLL_MS: Final = 12_000


@dataclass(slots=True)
class Course:
    """One course of events."""

    stage: Stage
    chance: random.Random
    how: dict[str, Any]
    session_ms: int
    alive: dict[str, Worker] = field(default_factory=dict)
    started: int = 0
    until_s: float = 0.0
    """When all that was begun is over."""

    def starts(self) -> None:
        """A new member, or one that was there before."""
        self.started += 1
        self._start(f"member{self.started}")

    def _start(self, name: str) -> None:
        self.alive[name] = self.stage.join(name, session_ms=self.session_ms, **self.how)

    def _chosen(self) -> tuple[str, Worker]:
        name = self.chance.choice(sorted(self.alive))
        return name, self.alive.pop(name)

    def closes(self) -> None:
        """A member is closed."""
        self._chosen()[1].tell("close")

    def killed(self) -> None:
        """A member is killed."""
        self.stage.kill(self._chosen()[1])

    def restarts(self) -> None:
        """A member is closed and started again."""
        name, worker = self._chosen()
        worker.tell("close")
        time.sleep(self.chance.choice((0.5, 2.0)))
        self._start(name)

    def crashes(self) -> None:
        """A member is killed and started again."""
        name, worker = self._chosen()
        self.stage.kill(worker)
        time.sleep(self.chance.choice((0.5, 2.0)))
        self._start(name)

    def pauses(self) -> None:
        """A member stands still for a time, shorter or longer than its session."""
        name, worker = self._chosen()
        self.stage.stop(worker, name)
        time.sleep(self.session_ms / 1000 * self.chance.choice((0.5, 1.6)))
        worker.go_on()
        self.alive[name] = worker

    def polls_late(self) -> None:
        """A member does not poll for a time, shorter or longer than it may."""
        name, worker = self._chosen()
        seconds = _POLL_MS / 1000 * self.chance.choice((0.5, 1.3))
        self.stage.stall(worker, name, seconds)
        self.until_s = max(self.until_s, time.monotonic() + seconds)
        if worker.library is not CONFLUENT:  # it would have to be told to go on
            self.alive[name] = worker

    def grows(self) -> None:
        """The topic gets two more partitions."""
        self.stage.add_partitions(len(self.stage.group.partitions) + 2)


_EVENTS: Final[tuple[Callable[[Course], None], ...]] = (
    Course.starts,
    Course.closes,
    Course.closes,
    Course.killed,
    Course.killed,
    Course.restarts,
    Course.crashes,
    Course.pauses,
    Course.polls_late,
    Course.grows,
)


def _settings(client: Library, chance: random.Random) -> dict[str, Any]:
    """Settings of all members of a group."""
    how: dict[str, Any] = {"commit_ms": chance.choice((500, 1_000, 3_000)), "poll_ms": _POLL_MS}
    how["static"] = chance.random() < 0.25
    refresh = "topic__metadata__refresh__interval__ms"
    how[refresh if client is CONFLUENT else "metadata__max__age__ms"] = 2_000
    if client.name.startswith(("confluent", "franz")) and chance.random() < 0.4:
        how["partition__assignment__strategy"] = "cooperative-sticky"
    if client is JAVA and chance.random() < 0.4:
        name = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        how["partition__assignment__strategy"] = name
    return how


def _play(seed: int, client: Library) -> Callable[[Stage], None]:
    def begin(stage: Stage) -> None:
        chance = random.Random(seed)
        session_ms = chance.choice((6_000, 10_000))
        course = Course(stage, chance, _settings(client, chance), session_ms)
        for _ in range(chance.randint(2, 4)):
            course.starts()
        stage.settle(*course.alive.values())
        time.sleep(chance.choice((1.0, 5.0)))
        stage.begin()
        for _ in range(chance.randint(*_STEPS)):
            chance.choice(_EVENTS if course.alive else (Course.starts,))(course)
            time.sleep(chance.choice(_PAUSES_S))
        time.sleep(max(0.0, course.until_s - time.monotonic()) + session_ms / 1000 + 8)

    return begin


_QUIET: Final = "member_left session_expired member_joined leader updated join_timeout"
"""Where nothing is committed, the order of what happened together does not show."""
for _seed in range(SEEDS):
    _client, _is_fed = FOUR[_seed % len(FOUR)], _seed % 5 != 4
    _name, _unknowable = f"{BY_CHANCE}, seed {_seed}", "" if _is_fed else _QUIET
    situation(_name, _client, is_fed=_is_fed, unknowable=_unknowable, is_once=True)(
        _play(_seed, _client)
    )
