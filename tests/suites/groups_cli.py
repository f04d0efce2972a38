"""`groupkeeper groups` beside kafka-consumer-groups: the same rows, the same refusals.

On our server, and on a broker of Apache Kafka that the suite starts.
"""

import asyncio
import re
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.parity.brokers import Kafka, Profile
from tests.suites import versions
from tests.suites.checks import UnmetError, checked
from tests.suites.kafka_checks import CLASSES, GROUPS
from tests.suites.kafka_tools import java
from tests.suites.process import Lines
from tests.suites.same_words import (
    CHANGES,
    REFUSALS,
    SEEN_AFTER_CHANGES,
    VIEWS,
    VIEWS_OF_MODERN,
    Refusal,
    Same,
    rows,
)
from tests.suites.suite import Result, Results, Suite, Target
from tests.support.populated import populated
from tests.support.process import ROOT

_TOOL_S = 60.0
_SHOWN = 6


class GroupsCli(Suite):
    """A populated server is looked at by both, then changed by us."""

    name = "groups-cli"
    about = "groupkeeper groups beside kafka-consumer-groups, on our server and on a broker"
    needs = ("java", "mvn")
    versions: ClassVar = {"org.apache.kafka:kafka-tools": versions.KAFKA}
    limit_s = 600.0
    settings: ClassVar = {"log.retention.hours": "-1"}

    def prepare(self, folder: Path) -> None:
        java(folder.parent)

    def run(self, target: Target, folder: Path) -> Results:
        yield from _Pair(target.bootstrap, folder, "").all()
        if target.data_dir is None:
            return
        place = folder / "kafka"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        kafka = Kafka(Profile({}), place)
        try:
            asyncio.run(kafka.start())
            yield from _Pair(f"127.0.0.1:{kafka.port}", folder, f"{kafka.name}: ").all()
        finally:
            kafka.kill()


class _Pair:
    """Kafka's tools and our commands, pointed at one broker."""

    def __init__(self, bootstrap: str, folder: Path, label: str) -> None:
        """`label` is in front of every name; a broker with one serves the new protocol, too."""
        self._bootstrap = bootstrap
        self._folder = folder
        self._label = label
        self._has_modern = bool(label)
        self._java = java(folder.parent)

    def all(self) -> Results:
        with populated(self._bootstrap, int(time.time() * 1000), modern=self._has_modern):
            views = (*VIEWS, *VIEWS_OF_MODERN) if self._has_modern else VIEWS
            for each in views:
                yield self._checked(each.name, partial(self._see_the_same, each))
            for refusal in REFUSALS:
                yield self._checked(f"both refuse {refusal.name}", partial(self._refuse, refusal))
            for words in CHANGES:
                yield self._checked(f"after {words}", partial(self._change, words))

    def _checked(self, name: str, check: Callable[[], None]) -> Result:
        return checked(f"{self._label}{name}", check)

    def _see_the_same(self, same: Same) -> None:
        theirs = rows(self._theirs(same)[0])
        ours = rows(self._ours(same.name)[0])
        if not theirs:
            raise UnmetError("Kafka's tool shows nothing")
        if theirs != ours:
            more = [f"only Kafka: {' '.join(each)}" for each in sorted(theirs - ours)[:_SHOWN]]
            more += [f"only ours: {' '.join(each)}" for each in sorted(ours - theirs)[:_SHOWN]]
            raise UnmetError("\n".join(more))

    def _refuse(self, refusal: Refusal) -> None:
        theirs, _ = self._theirs(refusal)
        ours, code = self._ours(refusal.name)
        if not re.search(refusal.told, "\n".join(theirs)):
            raise UnmetError("\n".join([f"Kafka does not say {refusal.told}", *theirs[:_SHOWN]]))
        if not re.search(refusal.says, "\n".join(ours)) or code not in (1, 2):
            raise UnmetError("\n".join([f"ours: {code}, not {refusal.says}", *ours[:_SHOWN]]))

    def _change(self, words: str) -> None:
        printed, code = self._ours(words)
        if code:
            raise UnmetError("\n".join(printed))
        for each in SEEN_AFTER_CHANGES:
            self._see_the_same(each)

    def _theirs(self, same: Same) -> tuple[list[str], int | None]:
        return self._run(*self._java, CLASSES[GROUPS], words=same.theirs)

    def _ours(self, words: str) -> tuple[list[str], int | None]:
        return self._run(sys.executable, "-m", "groupkeeper", words=words)

    def _run(self, *program: str, words: str) -> tuple[list[str], int | None]:
        """What is printed, and the exit code."""
        command = [*program, *words.split(), "--bootstrap-server", self._bootstrap]
        environment = {"PYTHONPATH": str(ROOT)}
        with Lines(command, self._folder, limit_s=_TOOL_S, env=environment) as lines:
            printed = list(lines)
        return printed, lines.returncode
