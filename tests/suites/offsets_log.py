"""What `groupkeeper analyze` reads in the folders of a broker, beside what Kafka's tools say: both
sides, and how they are compared. The suite `analyze-groups` does it with a broker, and
tests/analytics/test_group_protocols.py with `tests/fixtures/kafka-group-protocols`.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet

from groupkeeper.analytics.reading.problems import is_damage
from tests.parity.brokers import NEWEST
from tests.suites.compacted_log import Dump, segments
from tests.suites.java_groups import UTF8
from tests.suites.kafka_broker import OFFSETS
from tests.suites.kafka_checks import CLASSES, GROUPS
from tests.suites.process import Lines
from tests.support.process import ROOT

FIXTURE = ROOT / "tests" / "fixtures" / "kafka-group-protocols"
EXPECTED = "expected.json"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
_TOOL_S = 60.0

DELETED = ("deleted", "busy-deleted", "modern-deleted")
"""Groups of the fixture."""
NEWER_TYPES = ("consumer", "share", "streams")

Said = dict[str, Any]  # what JSON holds
Row = dict[str, Any]  # of a Parquet file


def keep(log_dir: Path, place: Path, said: Said, java_words: Sequence[str]) -> Path:
    """Make `place`/copy of the folders of a broker that was stopped, and add to `said`, which is
    written there, too, how many records of each type kafka-dump-log finds in it.
    """
    copy = place / "copy"
    for file in segments(log_dir, f"{OFFSETS}/*.log"):
        (copy / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy / file.parent.name)
    for file in log_dir.glob("[!_]*-0/partition.metadata"):
        (copy / file.parent.name).mkdir()
        shutil.copy(file, copy / file.parent.name)
    dump = Dump()
    files = ",".join(map(str, segments(copy, f"{OFFSETS}/*.log")))
    words = [CLASSES["kafka-dump-log"], "--offsets-decoder", "--files", files]
    dump.add(_printed([*java_words, *words], place))
    said["records"] = dict(sorted(dump.kinds.items()))
    (copy / EXPECTED).write_text(json.dumps(said, indent=1) + "\n")
    return copy


def described(bootstrap: str, java_words: Sequence[str], place: Path) -> Said:
    """What the tools say of all groups now: lists of words, in the order of `CHECKS`."""

    def lines(tool: str, *words: str) -> list[str]:
        command = [*java_words, tool, "--bootstrap-server", bootstrap, "--describe"]
        printed = _printed([*command, "--all-groups", *words], place)
        headings = ("GROUP ", "Consumer ", "Share ", "Streams ")
        return [each for each in printed if each and not each.startswith(headings)]

    groups = CLASSES[GROUPS]
    tools = (groups, SHARE_GROUPS, STREAMS_GROUPS)
    states = [line.split() for tool in tools for line in lines(tool, "--state", "--verbose")]
    told = lines(groups, "--offsets") + lines(STREAMS_GROUPS, "--offsets", "--verbose")
    of_members = [lines(tool, "--members", "--verbose") for tool in tools]
    members = [*map(_member, of_members[0] + of_members[1]), *map(_streams_member, of_members[2])]
    return {
        "broker": f"Apache Kafka {NEWEST}",
        "offsets": sorted(row[:4] for row in map(str.split, told) if row[3] != "-"),
        "states": sorted([row[0], row[-4], row[-3], row[-1]] for row in states),
        "members": sorted([*row[:2], row[4]] for row in members),
        "assignments": sorted([*row[:4], *row[5:]] for row in members),
    }


def _member(line: str) -> list[str]:
    """Group, member id, instance id, client id, number of partitions, epoch, and these."""
    words = line.split()
    host = next(at for at, word in enumerate(words) if word.startswith("/"))
    instance = words[2] if host > 2 else ""
    client, number, epoch, *assigned = words[host + 1 :]
    topics = ";".join(sorted(assigned[0].split(";"))) if int(number) else ""
    return [*words[:2], instance, client, number, epoch, topics]


def _streams_member(line: str) -> list[str]:
    """As `_member`; its active tasks, whose number the tool does not tell, by subtopology."""
    words, active = line.split(), re.search(r" ACTIVE: ([^;]*);", line)
    tasks = re.sub(r"[][ ]", "", active[1]) if active else ""
    number = len(re.findall(r"[:,]\d", tasks))
    return [words[0], words[3], "", words[7], str(number), words[5], tasks]


def _printed(command: Sequence[str], place: Path) -> list[str]:
    with Lines(command, place, limit_s=_TOOL_S, env=UTF8) as lines:
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
    same(found.items(), [each for each in said["records"].items() if each[0] != "record"])
    wrong = {row["problem"] for row in read["records"] if row["problem"]}
    assert not any(map(is_damage, wrong)), wrong


def offsets(said: Said, read: dict[str, list[Row]]) -> None:
    """All that the tools show, and no others."""
    names = ("group", "topic", "topic_partition", "committed_offset")
    found = [tuple(str(row[name]) for name in names) for row in read["offsets"]]
    same(found, map(tuple, said["offsets"]))


def states(said: Said, read: dict[str, list[Row]]) -> None:
    """State, epoch, number of members; what is Dead is not shown by the tools."""
    found = [
        (
            row["group"],
            row["state"],
            str(row["generation"]) if row["type"] in NEWER_TYPES else "-",
            str(row["member_count"]),
        )
        for row in read["groups"]
        if row["state"] != "Dead"
    ]
    same(found, map(tuple, said["states"]))


def dead(said: Said, read: dict[str, list[Row]]) -> None:
    """Deleted groups are Dead; of those deleted long ago the cleaner has removed the last trace."""
    deleted = [row for row in read["groups"] if row["group"] in DELETED]
    assert DELETED[-1] in {row["group"] for row in deleted}, "nothing to look at"
    same([row["state"] for row in deleted], ["Dead"])


def members(said: Said, read: dict[str, list[Row]]) -> None:
    """Ids, and how many partitions each has."""
    names = ("group", "member_id", "assigned_partitions")
    found = [tuple(str(row[name]) for name in names) for row in read["members"]]
    same(found, map(tuple, said["members"]))


def assignments(said: Said, read: dict[str, list[Row]]) -> None:
    """What members are called, their epochs, and partitions of topics, by name."""
    found = [
        (
            row["group"],
            row["member_id"],
            row["group_instance_id"] or "",
            row["client_id"],
            "-" if row["member_epoch"] is None else str(row["member_epoch"]),
            ";".join(
                sorted(
                    f"{each['topic']}:{','.join(map(str, each['partitions']))}"
                    for each in row["assignment"]
                )
            ),
        )
        for row in read["members"]
    ]
    same(found, map(tuple, said["assignments"]))


CHECKS: dict[str, Callable[[Said, dict[str, list[Row]]], None]] = {
    "records of each type as kafka-dump-log counts them": records,
    "offsets as Kafka's tools describe them": offsets,
    "states and epochs as Kafka's tools describe them": states,
    "deleted groups are dead": dead,
    "members as Kafka's tools describe them": members,
    "epochs and assignments of members as Kafka's tools describe them": assignments,
}


def same(found: Iterable[object], expected: Iterable[object]) -> None:
    ours, theirs = set(found), set(expected)
    assert theirs, "nothing to compare"
    more, missing = sorted(map(str, ours - theirs)), sorted(map(str, theirs - ours))
    assert not more and not missing, f"only ours: {more}\nonly Kafka's: {missing}"
