"""What `groupkeeper analyze` reads of groups of Java's clients, from a copy of a broker's folders
and over the wire, beside what Kafka's tools say. Every record type of Kafka 4.1 is there.
"""

import shutil
import sys
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from pyarrow import parquet

from tests.parity.brokers import NEWEST
from tests.suites.checks import checked
from tests.suites.java_groups import NEWER, JavaGroups, enable_newer, java
from tests.suites.kafka_broker import MovingKafka
from tests.suites.offsets_log import CHECKS, Row, dead, described, keep, table
from tests.suites.process import call
from tests.suites.suite import Outcome, Result, Results, Suite, Target
from tests.support.process import ROOT

SETTINGS = NEWER | {"log.cleaner.enable": "false", "log.roll.ms": "604800000"}
DEAD = {"deleted", "consumer-deleted", "share-deleted"}
CAUSES = {
    "emptied": ["member_joined", "member_left"],
    "expired": ["member_joined", "session_expired"],
    "removed": ["static_member_joined", "member_removed_by_admin"],
}
"""Causes of rounds by group, in their order, neighbours that are the same told once."""


class AnalyzeGroups(Suite):
    """Starts a broker of its own; the one that it is given is not used."""

    name = "analyze-groups"
    about = "groupkeeper analyze beside Kafka's tools, on groups of Java's clients of every kind"
    needs = ("java", "mvn")
    versions: ClassVar = {"org.apache.kafka:kafka": NEWEST}
    limit_s = 900.0

    def prepare(self, folder: Path) -> None:
        java(folder)

    def run(self, target: Target, folder: Path) -> Results:
        place = folder / "broker"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        java_words, kafka = java(folder), MovingKafka(NEWEST, place, SETTINGS)
        try:
            kafka.run()
            enable_newer(kafka.bootstrap, java_words, place)
            with JavaGroups(kafka.bootstrap, java_words, place) as groups:
                for act in groups.done:
                    yield Result(f"act: {act}", Outcome.PASSED)
                for act in groups.failed:
                    yield Result(f"act: {act.partition(':')[0]}", Outcome.FAILED, detail=act)
                said = described(kafka.bootstrap, java_words, place)
            wire = _analysed(place / "wire", "--bootstrap-server", kafka.bootstrap)
            kafka.kill()
        finally:
            kafka.kill()
        files = _analysed(place / "files", keep(kafka.log_dir, place, said, java_words))
        read = {name: table(files, name) for name in ("records", "groups", "members", "offsets")}
        for name, check in CHECKS.items():
            if check is not dead:
                yield checked(name, partial(check, said, read))
        yield checked("deleted groups are dead", partial(_dead, read["groups"]))
        yield checked("over the wire are the same tables", partial(_compare, wire, files))
        yield checked("causes are what happened", partial(_causes, files))


def _analysed(out: Path, *words: str | Path) -> Path:
    """The tables of one run."""
    command = [sys.executable, "-m", "groupkeeper", "analyze", *words, "--out", out]
    call(command, out.parent, {"PYTHONPATH": str(ROOT)})
    return out


def _tables(out: Path) -> dict[str, list[str]]:
    """The rows of all tables, in no order."""
    names = {file.relative_to(out).parts[0] for file in out.glob("*/day=*/*.parquet")}
    places = {name: out / name for name in names}
    places |= {file.stem: file for file in (out / "report").glob("*.parquet")}
    return {
        name: sorted(map(str, parquet.read_table(place).to_pylist()))
        for name, place in places.items()
    }


def _compare(wire: Path, files: Path) -> None:
    ours, theirs = _tables(wire), _tables(files)
    assert ours.keys() == theirs.keys(), f"{sorted(ours)} and {sorted(theirs)}"
    for name, rows in ours.items():
        assert rows == theirs[name], f"{name}: {len(rows)} rows and {len(theirs[name])}"
    assert ours["rounds"], "nothing to compare"


def _dead(groups: list[Row]) -> None:
    assert {row["group"] for row in groups if row["state"] == "Dead"} == DEAD


def _causes(out: Path) -> None:
    rows = sorted(parquet.read_table(out / "rounds").to_pylist(), key=lambda row: row["offset"])
    for group, causes in CAUSES.items():
        of_group = (row["cause"] for row in rows if row["group"] == group)
        found = [cause for cause, _ in groupby(of_group)]
        assert found == causes, f"{group}: {found}, not {causes}"
