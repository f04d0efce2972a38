"""Whether the records that are kept of a play are those of Kafka's log, and tell the same again."""

import json
from pathlib import Path

from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.protocol.placement import partition_of
from tests.support.told_events import NOON
from tests.support.written_log import WrittenLog, member
from tests.truth.observed.cluster import OFFSETS_PARTITIONS
from tests.truth.observed.plays import Outcome
from tests.truth.observed.records import inferred, item_of, recorded
from tests.truth.observed.timeline import timeline


def a_log(folder: Path) -> Path:
    """A log directory with the partition of the group `g`, in two segments."""
    made = WrittenLog()
    made.group(0, 1, member("alpha", 0), member("beta", 1))
    made.commits(1, 1, 5)
    made.group(7, 1, member("other", 0), name="other")
    first, cut = made.data, made.end
    made.group(8, 2, member("alpha", 0, 1))
    partition = folder / f"__consumer_offsets-{partition_of('g', OFFSETS_PARTITIONS)}"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(first)
    (partition / f"{cut:020}.log").write_bytes(made.data[len(first) :])
    return folder


def test_all_records_of_the_group_are_kept_and_no_others(tmp_path: Path) -> None:
    lines = json.loads(json.dumps(recorded(a_log(tmp_path), "g")))
    items = [item_of(line) for line in lines]
    groups = [each for each in items if isinstance(each, GroupRecord)]
    assert [each.group for each in groups] == ["g", "g"]
    assert all(isinstance(each.value, bytes) for each in groups)
    assert {each.partition for each in items if isinstance(each, CommitRun)} == {1}


def test_records_after_the_coordinators_log_was_read_are_left_out(tmp_path: Path) -> None:
    items = [item_of(line) for line in recorded(a_log(tmp_path), "g", NOON + 7_999)]
    assert [each.time_ms - NOON for each in items if isinstance(each, GroupRecord)] == [0]


def test_they_tell_the_same_again(tmp_path: Path) -> None:
    rows = inferred(recorded(a_log(tmp_path), "g"), "g")
    codes = [(row["generation"], row["cause"]["code"]) for row in rows if row["kind"] == "round"]
    assert codes == [(1, "member_joined"), (2, "member_left")]


def test_all_that_is_known_of_a_play_is_shown_by_its_time(tmp_path: Path) -> None:
    deeds = [{"what": "killed", "name": "beta", "at_ms": NOON + 6_000}]
    lines = [f"{NOON + 7_500} [GroupCoordinator id=0] Member beta in group g has failed"]
    kept = recorded(a_log(tmp_path), "g")
    about = {"group": "g", "begun_ms": NOON + 1_000, "deeds": deeds, "lines": lines}
    shown = timeline(Outcome("kill", "java", 1, 2.0, **about, records=kept))
    assert [each.split("  ")[1] for each in shown] == ["record", "commits", "deed", "log", "record"]
    assert shown[1] == "0 ms  commits  beta 1: 3, until 4000 ms"
    assert shown[2] == "5000 ms  deed  killed beta"
    assert shown[-1] == "7000 ms  record  generation 2, leader alpha: alpha"
