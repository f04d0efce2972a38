"""What `groupkeeper analyze` reads in the folders of a broker, beside what Kafka's tools say.
`python -m tests.suites.offsets_log` makes `tests/fixtures/kafka-group-protocols` anew.

A broker of Apache Kafka has groups of every kind while its cleaner runs all the time: classic and
static members, transactions, consumer and share groups, tombstones and deleted groups.
"""

import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyarrow import parquet

from groupkeeper.analytics.reading.problems import is_damage
from tests.parity.brokers import NEWEST
from tests.suites import maven, modern_scene
from tests.suites.compacted_log import Dump, segments
from tests.suites.kafka_broker import OFFSETS, MovingKafka
from tests.suites.kafka_checks import CLASSES, GROUPS
from tests.suites.kafka_scene import DELETED, TOPIC, Scene, wait_for
from tests.suites.kafka_tools import JARS
from tests.suites.modern_scene import ModernScene
from tests.suites.process import Lines, call
from tests.suites.suite import Outcome, Result, Results, Suite, Target
from tests.support.process import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "kafka-group-protocols"
EXPECTED = "expected.json"
SETTINGS = {
    "group.share.enable": "true",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
_TOOL_S = 60.0

Said = dict[str, Any]  # what JSON holds
Row = dict[str, Any]  # of a Parquet file


class OffsetsLog(Suite):
    """Starts a broker of its own; the one that it is given is not used."""

    name = "offsets-log"
    about = "groupkeeper analyze beside Kafka's tools, on the folders of a broker"
    needs = ("java", "mvn")
    versions: ClassVar = {"org.apache.kafka:kafka": NEWEST}
    limit_s = 600.0

    def prepare(self, folder: Path) -> None:
        java(folder)

    def run(self, target: Target, folder: Path) -> Results:
        place = folder / "broker"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        live(place, java(folder))
        out = place / "analysis"
        words = ["analyze", place / "copy", "--out", out]
        call([sys.executable, "-m", "groupkeeper", *words], place, {"PYTHONPATH": str(ROOT)})
        said = json.loads((place / "copy" / EXPECTED).read_text())
        read = {name: table(out, name) for name in ("records", "groups", "members", "offsets")}
        for name, check in CHECKS.items():
            yield _result(name, partial(check, said, read))


def write() -> None:
    """The fixture."""
    with tempfile.TemporaryDirectory() as place:
        live(Path(place), java(ROOT / ".suites" / "offsets-log"))
        for folder in FIXTURE.glob("*-*/"):
            shutil.rmtree(folder)
        shutil.copytree(Path(place) / "copy", FIXTURE, dirs_exist_ok=True)


def java(folder: Path) -> list[str]:
    """Java with the jars of the suite kafka-tools."""
    place = folder.parent / "kafka-tools" / "jars"
    place.parent.mkdir(parents=True, exist_ok=True)
    return [*_JAVA, _QUIET, "-cp", maven.jars(place, JARS)]


def live(place: Path, java_words: Sequence[str]) -> None:
    """Make `place`/copy: the segments of the offsets topic of a broker that was killed, the ids of
    its topics, and what its tools say of groups and records.
    """
    kafka = MovingKafka(NEWEST, place, SETTINGS)
    try:
        kafka.run()
        with (
            Scene(kafka.bootstrap) as scene,
            ModernScene(kafka.bootstrap, java_words, place) as modern,
        ):
            scene.make_topic()
            modern.play()
            scene.play(transactions=True)
            wait_for(kafka.is_cleaned, "the cleaner has been through all partitions")
            scene.leave_transactions_open()
            modern.delete()  # the cleaner leaves the newest segment, so that its tombstones stay
            said = _described(kafka.bootstrap, java_words, place)
            kafka.kill()
    finally:
        kafka.kill()
    copy = place / "copy"
    for file in segments(kafka.log_dir, f"{OFFSETS}/*.log"):
        (copy / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy / file.parent.name)
    (copy / f"{TOPIC}-0").mkdir()
    shutil.copy(kafka.log_dir / f"{TOPIC}-0" / "partition.metadata", copy / f"{TOPIC}-0")
    dump = Dump()
    files = ",".join(map(str, segments(copy, f"{OFFSETS}/*.log")))
    words = [CLASSES["kafka-dump-log"], "--offsets-decoder", "--files", files]
    dump.add(_printed([*java_words, *words], place))
    said["records"] = dict(sorted(dump.kinds.items()))
    (copy / EXPECTED).write_text(json.dumps(said, indent=1) + "\n")


def _described(bootstrap: str, java_words: Sequence[str], place: Path) -> Said:
    def rows(tool: str, *words: str) -> list[list[str]]:
        command = [*java_words, tool, "--bootstrap-server", bootstrap, "--describe"]
        lines = _printed([*command, "--all-groups", *words], place)
        found = [line.split() for line in lines if re.match(r"\S+ +\S+ +\S+ +\S", line)]
        return [row for row in found if row[0] not in ("GROUP", "Consumer", "Share")]

    groups = CLASSES[GROUPS]
    states = rows(groups, "--state") + rows(_SHARE_GROUPS, "--state")
    return {
        "broker": f"Apache Kafka {NEWEST}",
        "offsets": sorted(row[:4] for row in rows(groups, "--offsets") if row[3] != "-"),
        "states": sorted([row[0], row[-2], row[-1]] for row in states),
        "members": sorted([*row[:2], row[-1]] for row in rows(groups, "--members")),
    }


def _printed(command: Sequence[str], place: Path) -> list[str]:
    with Lines(command, place, limit_s=_TOOL_S) as lines:
        return list(lines)


# -- what is compared --------------------------------------------------------------------------


def table(out: Path, name: str) -> list[Row]:
    """A table of `analyze --out`."""
    place = out / name if name == "records" else out / "report" / f"{name}.parquet"
    rows: list[Row] = parquet.read_table(place).to_pylist()
    return rows


def records(said: Said, read: dict[str, list[Row]]) -> None:
    """Each type of record, with and without a value, as often as kafka-dump-log prints it."""
    found = Counter(
        f"type {row['key_type']}{', no value' * row['tombstone']}"
        for row in read["records"]
        if row["key_type"] is not None
    )
    _same(found.items(), [each for each in said["records"].items() if each[0] != "record"])
    wrong = {row["problem"] for row in read["records"] if row["problem"]}
    assert not any(map(is_damage, wrong)), wrong


def offsets(said: Said, read: dict[str, list[Row]]) -> None:
    """All that kafka-consumer-groups shows, and no others."""
    names = ("group", "topic", "topic_partition", "committed_offset")
    found = [tuple(str(row[name]) for name in names) for row in read["offsets"]]
    _same(found, map(tuple, said["offsets"]))


def states(said: Said, read: dict[str, list[Row]]) -> None:
    """State and number of members; what is Dead is not shown by the tools."""
    found = [
        (row["group"], row["state"], str(row["member_count"]))
        for row in read["groups"]
        if row["state"] != "Dead"
    ]
    _same(found, map(tuple, said["states"]))


def dead(said: Said, read: dict[str, list[Row]]) -> None:
    """Deleted groups are Dead; of those deleted long ago the cleaner has removed the last trace."""
    deleted = [row for row in read["groups"] if row["group"] in (*DELETED, modern_scene.DELETED)]
    assert modern_scene.DELETED in {row["group"] for row in deleted}, "nothing to look at"
    _same([row["state"] for row in deleted], ["Dead"])


def members(said: Said, read: dict[str, list[Row]]) -> None:
    """Ids, and how many partitions each has; share groups are not shown by this tool."""
    of_share = {row["group"] for row in read["groups"] if row["type"] == "share"}
    found = [
        (row["group"], row["member_id"], str(row["assigned_partitions"]))
        for row in read["members"]
        if row["group"] not in of_share
    ]
    _same(found, map(tuple, said["members"]))


def topics(said: Said, read: dict[str, list[Row]]) -> None:
    """The topic of newer groups has its name."""
    found = {each["topic"] for row in read["members"] for each in row["assignment"]}
    _same(found, [TOPIC])


CHECKS: dict[str, Callable[[Said, dict[str, list[Row]]], None]] = {
    "records of each type as kafka-dump-log counts them": records,
    "offsets as kafka-consumer-groups describes them": offsets,
    "states as kafka-consumer-groups and kafka-share-groups describe them": states,
    "deleted groups are dead": dead,
    "members as kafka-consumer-groups describes them": members,
    "assignments name topics": topics,
}


def _same(found: Iterable[object], expected: Iterable[object]) -> None:
    ours, theirs = set(found), set(expected)
    assert theirs, "nothing to compare"
    more, missing = sorted(map(str, ours - theirs)), sorted(map(str, theirs - ours))
    assert not more and not missing, f"only ours: {more}\nonly Kafka's: {missing}"


def _result(name: str, check: Callable[[], None]) -> Result:
    try:
        check()
    except AssertionError as error:
        return Result(name, Outcome.FAILED, detail=str(error))
    return Result(name, Outcome.PASSED)


if __name__ == "__main__":
    write()
