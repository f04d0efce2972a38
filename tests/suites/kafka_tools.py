"""Kafka's own command line tools, from their jars, each invocation a check on what it says."""

import contextlib
import shutil
import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from tests.suites import compacted_log, maven, versions
from tests.suites.checks import UnmetError, checked, wait_for
from tests.suites.compacted_log import Dump, segments, wrong_index
from tests.suites.kafka_checks import CLASSES, Check, Checks
from tests.suites.process import Lines
from tests.suites.secure_tools import secure_tools
from tests.suites.suite import Outcome, Result, Results, Suite, Target
from tests.suites.verifiable import Member

JARS = (
    f"org.apache.kafka:kafka_{versions.KAFKA_SCALA}:{versions.KAFKA}",
    f"org.apache.kafka:kafka-tools:{versions.KAFKA}",
    f"org.slf4j:slf4j-simple:{versions.SLF4J}",
)
# These start quickly and live for two seconds.
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"
_TOOL_SECONDS = 60.0
_DETAIL_LINES = 8
_ALL = frozenset(range(4))
_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def java(suites: Path, level: str = "error") -> list[str]:
    """Java with the class path of the tools, which is fetched once into the folder of all suites;
    `level` is that of their log. Raises SuiteError.
    """
    place = suites / "kafka-tools" / "jars"
    place.mkdir(parents=True, exist_ok=True)
    return [*_JAVA, f"{_LEVEL}={level}", "-cp", maven.jars(place, JARS)]


class KafkaTools(Suite):
    """The tools' consumers form groups; the others look at these, reset and delete them."""

    name = "kafka-tools"
    about = "Apache Kafka's command line tools: groups, topics, verifiable consumers, log dumps"
    needs = ("java", "mvn")
    versions: ClassVar = {"org.apache.kafka:kafka-tools": versions.KAFKA}
    limit_s = 700.0

    def prepare(self, folder: Path) -> None:
        java(folder.parent)

    def run(self, target: Target, folder: Path) -> Results:
        tools = Tools(target, folder)
        yield from tools.all(tools.checks.topics())
        yield tools.check(tools.checks.reading("reads a topic and commits", 0))
        yield from tools.all(tools.checks.empty_group())
        yield from _two_members(tools)
        yield from _cooperative(tools)
        yield from _static(tools)
        yield from tools.all(tools.checks.ends())
        if target.data_dir is not None:
            yield tools.check(tools.checks.log(), _logs(target.data_dir))
            yield from _compacted(tools, folder)
            yield from secure_tools(java(folder.parent), folder)


class Tools:
    """Kafka's tools, pointed at one broker."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self._run = f"-{uuid.uuid4().hex[:6]}"
        self.checks = Checks(self._run)
        self._java = java(folder.parent, "warn")

    def command(self, tool: str, words: str) -> list[str]:
        address = ["--bootstrap-server", self._target.bootstrap]
        return [*self._java, CLASSES[tool], *address, *words.split()]

    def all(self, several: Iterable[Check]) -> Results:
        for each in several:
            yield self.check(each)

    def check(self, check: Check, more: str = "") -> Result:
        """Run one tool and look at what it says; a tool without a broker gets its files."""
        command = self.command(check.tool, f"{check.words} {more}")
        if more:
            command.remove("--bootstrap-server")
            command.remove(self._target.bootstrap)
        started = time.monotonic()
        printed = self._printed(command)
        seconds = time.monotonic() - started
        unsaid = check.unsaid("\n".join(printed))
        if not unsaid:
            return Result(check.name, Outcome.PASSED, seconds)
        detail = [f"does not say {each}" for each in unsaid] + printed[:_DETAIL_LINES]
        return Result(check.name, Outcome.FAILED, seconds, "\n".join(detail))

    def _printed(self, command: list[str]) -> list[str]:
        with Lines(command, self._folder, limit_s=_TOOL_SECONDS) as lines:
            return list(lines)

    def dumped(self, words: str, files: Iterable[Path]) -> list[str]:
        """What kafka-dump-log says of files."""
        tool = [*self._java, CLASSES["kafka-dump-log"], *words.split()]
        return self._printed([*tool, "--files", ",".join(map(str, files))])

    def dumped_by_us(self, words: str, files: Iterable[Path]) -> list[str]:
        """What `groupkeeper dump` says of them."""
        tool = [sys.executable, "-m", "groupkeeper", "dump", *words.split()]
        return self._printed([*tool, *map(str, files)])

    def member(self, group: str, name: str, words: str = "") -> Member:
        """A consumer of the shared topic, not yet started."""
        group = f"{group}{self._run}"
        words = f"--topic {self.checks.shared} --group-id {group} {words}"
        return Member(group, name, self.command("kafka-verifiable-consumer", words), self._folder)


def _shared_by(first: Member, second: Member) -> None:
    """Wait until each of two members owns half of the partitions."""
    wait_for(
        lambda: first.owned | second.owned == _ALL and len(first.owned) == len(second.owned) == 2,
        f"{first.name} and {second.name} own two partitions each",
    )


def _two_members(tools: Tools) -> Results:
    """Two consumers share by range and are looked at; then one of them leaves."""
    with tools.member("pair", "1") as one, tools.member("pair", "2") as two:
        yield checked("kafka-verifiable-consumer: two share", lambda: _shared_by(one, two))
        yield from tools.all(tools.checks.of_two_members(one.group))

        def leave() -> None:
            two.stop()
            wait_for(lambda: one.owned == _ALL, f"{one.name} owns everything")

        yield checked("kafka-verifiable-consumer: one leaves, the other takes over", leave)


def _cooperative(tools: Tools) -> Results:
    """The first gives up what the second gets, and nothing else (KIP-429)."""
    strategy = f"--assignment-strategy {_COOPERATIVE}"

    def share() -> None:
        with tools.member("cooperative", "1", strategy) as one:
            wait_for(lambda: one.owned == _ALL, f"{one.name} owns everything")
            with tools.member("cooperative", "2", strategy) as two:
                _shared_by(one, two)
                if (lost := frozenset().union(*one.revoked)) != two.owned:
                    raise UnmetError(f"{one.name} gave up {lost}, {two.name} got {two.owned}")

    yield checked("kafka-verifiable-consumer: cooperative rebalance", share)


def _static(tools: Tools) -> Results:
    """A static member that comes back gets what it had, and nobody else notices (KIP-345)."""
    with contextlib.ExitStack() as running:

        def start(instance_id: str, name: str) -> Member:
            words = f"--group-instance-id {instance_id}"
            return running.enter_context(tools.member("static", name, words))

        first, second = start("a", "a"), start("b", "b")
        yield checked(
            "kafka-verifiable-consumer: static members share", lambda: _shared_by(first, second)
        )
        yield from tools.all(tools.checks.of_static_members(first.group))

        def come_back() -> None:
            had, seen = second.owned, (list(first.assigned), list(first.revoked))
            second.stop()
            again = start("b", "b again")
            wait_for(lambda: again.owned == had, f"{again.name} owns {set(had)}")
            if (first.assigned, first.revoked) != seen:
                raise UnmetError(f"{first.name} saw a rebalance")

        yield checked("kafka-verifiable-consumer: a static member comes back", come_back)


def _compacted(tools: Tools, folder: Path) -> Results:
    """Every segment that we write, also compacted and archived ones, is Kafka's to read."""
    place = folder / "compacted"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    data_dir = compacted_log.make(place)
    offsets = Dump()

    def same(pattern: str, theirs: str, ours: str, dump: Dump) -> None:
        files = segments(data_dir, pattern)
        dump.add(tools.dumped(theirs, files))
        mine = Dump()
        mine.add(tools.dumped_by_us(ours, files))
        if different := dump.differences(mine):
            raise UnmetError("\n".join(["kafka-dump-log and groupkeeper dump", *different]))

    def has_everything() -> None:
        archived = [file for file in offsets.batches if "/archive/" in file]
        if not (archived and offsets.horizons and offsets.empty and len(offsets.kinds) > 2):
            raise UnmetError(f"archived: {archived}, horizons: {offsets.horizons}, {offsets.kinds}")

    def check_indexes(words: str) -> None:
        files = segments(data_dir, "**/__consumer_offsets-*/*index")
        if wrong := list(wrong_index(tools.dumped(words, files), offsets)):
            raise UnmetError("\n".join(wrong))

    name = "kafka-dump-log: compacted"
    places = "**/__consumer_offsets-*/*.log"
    yield checked(
        f"{name} and archived offsets as groupkeeper dump",
        lambda: same(places, "--offsets-decoder", "--offsets", offsets),
    )
    yield checked(f"{name} horizons, empty batches, raw segments are there", has_everything)
    yield checked(
        f"{name} topics as groupkeeper dump",
        lambda: same("[cp]*/*.log", "--print-data-log", "", Dump()),
    )
    for words in ("--index-sanity-check", "--verify-index-only"):
        yield checked(
            f"{name} and archived indexes, {words}", lambda words=words: check_indexes(words)
        )


def _logs(data_dir: Path) -> str:
    """The segments of __consumer_offsets that hold something, as the words of kafka-dump-log."""
    segments = sorted(data_dir.glob("__consumer_offsets-*/*.log"))
    files = ",".join(str(each) for each in segments if each.stat().st_size)
    return f"--files {files}"
