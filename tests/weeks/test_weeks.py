"""Two days of forty groups: what an analysis finds is what really happened."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import CONTROL, TRANSACTIONAL
from groupkeeper.analytics.reading.plan import plan
from groupkeeper.analytics.what_if.scenarios import AS_IT_WAS
from tests.weeks import truth
from tests.weeks.analysed import asked_of, tables_of
from tests.weeks.check import INFERRED, RULES, Score, check, check_inferred, score
from tests.weeks.expected import (
    MAYBE,
    Truth,
    barrier,
    commit_silence,
    crowded,
    idle_members,
    not_stable,
    rebalance_rate,
    restart_gaps,
    restarts,
    rhythm_steps,
)
from tests.weeks.incidents import KINDS
from tests.weeks.plans import ranges, sticky
from tests.weeks.quiet import METADATA
from tests.weeks.shards import make
from tests.weeks.weeks import Size

TWO_DAYS: Final = Size(
    groups=40,
    days=2,
    seed=1,
    partitions=8,
    sessions_s=(1200, 1800, 1800),
    rhythms_s=(60.0, *(900.0,) * 19),
    segment_bytes=1 << 18,
)
"""Long sessions and few commits: a request costs a quarter of a millisecond."""
SMALL: Final = Size(groups=4, days=0.2, seed=2, partitions=4, incidents_a_day=8)
FLOORS: Final = {"rounds": 0.99, "causes": 0.85}
"""Without events; 0.9 of all other questions. A cause that is not certain is called unknown."""

pytestmark = [pytest.mark.xdist_group("weeks"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A data directory, and what happened."""
    folder = tmp_path_factory.mktemp("weeks")
    return folder / "data", make(TWO_DAYS, folder)


@pytest.fixture(scope="module")
def tables(weeks: tuple[Path, Truth]) -> dict[str, pa.Table]:
    """With the answers."""
    return asked_of(weeks[0])


@pytest.fixture(scope="module")
def scores(weeks: tuple[Path, Truth], tables: dict[str, pa.Table]) -> dict[str, Score]:
    return check(tables, weeks[1])


@pytest.fixture(scope="module")
def inferred(weeks: tuple[Path, Truth]) -> dict[str, Score]:
    data, happened = weeks
    return check_inferred(asked_of(data, events=False), happened)


@pytest.fixture(scope="module")
def later(weeks: tuple[Path, Truth], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Score]:
    """With all records, and the later half of the events: the earlier ones have been deleted."""
    data = tmp_path_factory.mktemp("later") / "data"
    shutil.copytree(weeks[0], data)
    for folder in data.glob("__group_events-*"):
        logs = sorted(folder.glob("*.log"))
        for log in logs[: len(logs) // 2]:
            for each in folder.glob(f"{log.stem}.*"):
                each.unlink()
    return check(asked_of(data), weeks[1])


@pytest.mark.parametrize(
    ("question", "least"), [("idle_members", 0.85), ("skew", 0.98), ("commit_silence", 0.98)]
)
def test_without_old_events_members_and_owners_go_on_as_records_tell(
    question: str, least: float, later: dict[str, Score]
) -> None:
    found = later[question]
    assert found.precision >= least, found.wrong
    assert found.recall >= least, found.missed


@pytest.mark.parametrize("question", RULES)
def test_an_answer_has_what_happened_and_nothing_else(
    question: str, scores: dict[str, Score]
) -> None:
    found = scores[question]
    assert (found.wrong, found.missed) == ([], [])
    assert found.expected or question == "split_brain"


@pytest.mark.parametrize("question", INFERRED)
def test_without_events_an_answer_has_most_of_it(question: str, inferred: dict[str, Score]) -> None:
    found, least = inferred[question], FLOORS.get(question, 0.9)
    assert found.precision >= max(least, 0.9), found.wrong
    assert found.recall >= least, found.missed


def test_a_replay_as_it_was_has_the_rebalances_of_each_group(
    weeks: tuple[Path, Truth], tables: dict[str, pa.Table]
) -> None:
    """Give or take one: whether two rounds that nearly touch become one is chance."""
    happened = Counter(row["group"] for row in weeks[1]["rounds"])
    told = [row for row in tables["what_if"].to_pylist() if row["scenario"] == AS_IT_WAS]
    assert {row["group"]: row["recorded_rounds"] for row in told} == happened
    off = {row["group"]: row["replayed_rounds"] - row["recorded_rounds"] for row in told}
    assert {group: more for group, more in off.items() if abs(more) > 1} == {}
    assert sum(map(abs, off.values())) <= 0.01 * happened.total()


def test_everything_happens_that_can(weeks: tuple[Path, Truth]) -> None:
    counts = Counter(row["kind"] for row in weeks[1]["incidents"])
    assert set(counts) >= set(KINDS), counts
    assert {row["how"] for row in weeks[1]["coordinators"]} == {"stopped", "killed"}


def test_a_session_that_an_outage_renewed_ends_to_the_millisecond_in_the_truth(
    tmp_path: Path,
) -> None:
    """It begins anew when the log partition of its group is loaded, and not when all are."""
    happened = make(replace(SMALL, partitions=50, restarts_a_day=30), tmp_path)
    outages = {row["number"] for row in happened["incidents"] if row["kind"] == "dies_in_outage"}
    ends = [
        (row["group"], row["by_client_id"], row["started_ms"])
        for row in happened["rounds"]
        if row["incident"] in outages and row["cause"] == "session_expired"
    ]
    found = [
        (row["group"], row["by_client_id"], int(row["started"].timestamp() * 1000))
        for row in tables_of(tmp_path / "data")["rounds"].to_pylist()
        if row["cause"] == "session_expired"
    ]
    assert ends
    for group, client_id, at in ends:
        assert min(abs(at - ms) for *who, ms in found if who == [group, client_id]) <= 5


def test_segments_roll(weeks: tuple[Path, Truth]) -> None:
    assert max(len([*each.glob("*.log")]) for each in weeks[0].glob("__consumer_offsets-*")) > 3


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    contents, tables = [], []
    for name in ("one", "other"):
        make(SMALL, tmp_path / name)
        logs = sorted((tmp_path / name / "data").rglob("*.log"))
        contents.append([(each.parent.name, each.name, each.read_bytes()) for each in logs])
        tables.append(truth.read(tmp_path / name))
    assert contents[0] == contents[1]
    assert tables[0] == tables[1]
    assert sum(len(data) for _, _, data in contents[0]) > 100_000


def test_shards_make_one_data_directory_with_as_many_records_as_asked_for(tmp_path: Path) -> None:
    happened = make(replace(SMALL, shards=2), tmp_path, records=20_000)
    records, quiet = _records(tmp_path / "data")
    assert 20_000 <= records <= 26_000
    assert quiet == sum(row["quiet"] for row in happened["commits"])
    scores = check(asked_of(tmp_path / "data"), happened)
    assert [name for name, each in scores.items() if each.wrong or each.missed] == []


def test_commits_that_are_added_are_transactions_by_chance(tmp_path: Path) -> None:
    happened = make(replace(SMALL, transactional=0.5, prefix="squad"), tmp_path, records=10_000)
    assert {row["group"] for row in happened["groups"]} == {f"squad-{n:03}" for n in range(4)}
    plain, within, markers = 0, 0, 0
    for split in (split for chunk in plan([tmp_path / "data"]).chunks for split in chunk):
        for batch in parse_split(split):
            rows = batch.select(["attributes", "metadata"]).to_pylist()
            quiet = Counter(row["attributes"] for row in rows if row["metadata"] == METADATA)
            plain += quiet[0]
            within += quiet[TRANSACTIONAL]
            markers += sum(row["attributes"] == TRANSACTIONAL | CONTROL for row in rows)
    assert 0.4 < within / (plain + within) < 0.6
    assert 0 < markers <= within
    scores = check(asked_of(tmp_path / "data"), happened)
    assert [name for name, each in scores.items() if each.wrong or each.missed] == []


def _records(data: Path) -> tuple[int, int]:
    """How many there are, and how many of them the fast writer added; all are sound and in the
    order of time.
    """
    records = quiet = 0
    newest: dict[int, int] = {}
    for split in (split for chunk in plan([data]).chunks for split in chunk):
        for batch in parse_split(split):
            assert batch["problem"].null_count == len(batch)
            records += len(batch)
            quiet += batch["metadata"].to_pylist().count(METADATA)
            times = batch["timestamp_ms"].to_pylist()
            assert times == sorted(times)
            assert newest.get(split.partition, 0) <= times[0]
            newest[split.partition] = times[-1]
    return records, quiet


def test_crowded_times_are_together_while_their_windows_overlap() -> None:
    assert [*crowded([0, 1, 2, 50, 51, 52, 53], 3, 5)] == [[0, 1, 2], [3, 4, 5, 6]]
    assert [*crowded([0, 4, 8, 12], 3, 8)] == [[0, 1, 2, 3]]
    assert [*crowded([0, 4, 9], 3, 8)] == []


@pytest.mark.parametrize(("added", "found"), [(0, []), (1, [True]), (9, [False]), (99, [False])])
def test_a_quarter_of_an_hour_is_a_silence_where_commits_were_added(
    added: int, found: list[bool]
) -> None:
    """Three commits of a process that makes one every five minutes. Of every two or three minutes
    it depends on how many others there are.
    """
    happened: Truth = {
        "sessions": [],
        "groups": [{"group": "g", "commit_s": 300.0}],
        "commits": [{"group": "g", "commits": 10, "quiet": 10 * added}],
        "incidents": [
            {
                "group": "g",
                "kind": "nearly_silent",
                "subject": "a",
                "from_ms": 0,
                "until_ms": 800_000,
            }
        ],
    }
    assert [row[MAYBE] for row in commit_silence(happened)] == found


def test_a_member_keeps_what_it_had_when_it_died_and_nothing_that_it_gave_up_before() -> None:
    """For an hour it has nothing; then it is given a partition, dies, and its session expires."""
    session = {"group": "g", "from_ms": 0, "heard_ms": None, "until_ms": None, "how": None}
    dead = {"heard_ms": 5_000_000, "until_ms": 5_600_000, "how": "crashed"}
    owned = [("a", 0, 0, None), ("b", 1, 0, 1000), ("b", 1, 3_601_000, 5_001_000)]
    happened: Truth = {
        "coordinators": [{"shard": 0, "until_ms": 9_000_000}],
        "groups": [{"group": "g", "partition": 0}],
        "sessions": [{**session, "member": "a"}, {**session, **dead, "member": "b"}],
        "ownership": [
            {"group": "g", "partition": partition, "member": who, "from_ms": low, "until_ms": high}
            for who, partition, low, high in owned
        ],
    }
    assert [(row["member"], row["idle_ms"]) for row in idle_members(happened)] == [("b", 3_600_000)]
    happened["ownership"].pop()
    assert [row["idle_ms"] for row in idle_members(happened)] == [5_599_000]


def test_each_round_about_the_limit_may_have_been_held_or_not() -> None:
    rounds = [{"group": "g", "last_client_id": "a", "held_ms": ms} for ms in (1000, 5000, 1010)]
    wanted = barrier({"rounds": rounds})
    assert [(row["held"], row["held_ms"]) for row in wanted] == [(1, 5000), (2, 6010), (3, 7010)]
    assert not any(row[MAYBE] for row in wanted)
    assert [row[MAYBE] for row in barrier({"rounds": rounds[1:2]})] == [False]
    assert [(row["held"], row[MAYBE]) for row in barrier({"rounds": rounds[:1]})] == [(1, True)]


def test_of_several_answers_that_are_right_one_has_to_be_given_and_no_second() -> None:
    rounds = [{"group": "g", "last_client_id": "a", "held_ms": ms} for ms in (1000, 60_000)]
    wanted, rule = barrier({"rounds": rounds}), RULES["barrier"]
    assert len(wanted) == 2
    for found, missed, wrong in (
        ([], 1, 0),
        (wanted[:1], 0, 0),
        (wanted[1:], 0, 0),
        (wanted, 0, 1),
    ):
        given = score(rule, wanted, found)
        assert (given.expected, len(given.missed), len(given.wrong)) == (1, missed, wrong)
    near = barrier({"rounds": rounds[:1]})
    assert [score(rule, near, found).wrong for found in ([], near)] == [[], []]
    assert score(rule, near, []).missed == []


def test_a_rate_that_is_of_another_time_is_wrong() -> None:
    """From the first rebalance to the end of the log; a share may be small."""
    day = 86_400_000
    done = {"group": "g", "outcome": "completed", "started_ms": day, "ended_ms": day + 1000}
    happened: Truth = {
        "coordinators": [{"shard": 0, "until_ms": 3 * day}],
        "groups": [{"group": "g", "partition": 0}],
        **{name: [] for name in ("sessions", "ownership", "deletions")},
        "rounds": [done, done | {"started_ms": 2 * day, "ended_ms": 2 * day + 1000}],
    }
    [rate], [still] = rebalance_rate(happened), not_stable(happened)
    assert (rate["from"], rate["until"], rate["per_day"]) == (day, 3 * day, 1.0)
    assert still["share"] == 1000 / day
    for name, row, key in (("rebalance_rate", rate, "per_day"), ("not_stable", still, "share")):
        for times, wrong in ((1.0, 0), (1.05, 1), (0.95, 1), (0.0, 1)):
            assert len(score(RULES[name], [row], [row | {key: row[key] * times}]).wrong) == wrong
    late = rate | {"from": day + 2000}
    assert len(score(RULES["rebalance_rate"], [rate], [late]).wrong) == 1


@pytest.mark.parametrize(
    ("away_s", "answers"),
    [
        ((9, 30, 700, 1000), [(2, 1, 9_000, 30_000)]),
        ((9, 600), [(1, 1, 9_000, 9_000), (2, 0, 9_000, 600_000)]),
        ((20, 900), [(1, 0, 20_000, 20_000), (1, 1, 20_000, 20_000)]),
        ((700,), []),
    ],
)
def test_outages_are_no_restarts(
    away_s: tuple[int, ...], answers: list[tuple[int, int, int, int]]
) -> None:
    """One at a limit may be counted or not."""
    sessions, now = [{"heard_ms": 0, "from_ms": 0}], 0
    for each in away_s:
        now += each * 1000
        sessions.append({"heard_ms": now, "from_ms": now})
    whose = {"group": "g", "instance": "i"}
    happened: Truth = {
        "groups": [{"group": "g", "session_ms": 45_000}],
        "sessions": [whose | each for each in sessions],
    }
    found = restart_gaps(happened)
    columns = ("restarts", "outages", "median_ms", "longest_ms")
    assert {tuple(row[name] for name in columns) for row in found} == {*answers}
    assert {row[MAYBE] for row in found} == {False for _ in answers[:1]}
    assert score(RULES["restart_gaps"], found, []).expected == len(answers[:1])


def test_a_step_shortly_before_the_end_need_not_be_found() -> None:
    hour = 3_600_000
    planted = {"group": "g", "kind": "rhythm", "from_ms": 10 * hour, "until_ms": 15 * hour}
    happened: Truth = {
        "coordinators": [{"shard": 0, "until_ms": 18 * hour}],
        "groups": [{"group": "g", "partition": 0, "partitions": 1}],
        "incidents": [planted],
    }
    assert [row[MAYBE] for row in rhythm_steps(happened)] == [False, True]
    happened["coordinators"][0]["until_ms"] = 19 * hour
    assert [row[MAYBE] for row in rhythm_steps(happened)] == [False, False]


def test_who_is_silent_for_its_session_to_the_millisecond_may_be_a_silent_owner() -> None:
    """Its own clock has the answer to its last commit, the log has the commit."""
    dead = {"group": "g", "client_id": "a", "how": "crashed", "last_commit_ms": 2}
    happened: Truth = {"commits": [], "incidents": [], "ownership": []}
    happened["groups"] = [{"group": "g", "commit_s": 60.0}]
    dead |= {"member": "m", "heard_ms": 2}
    happened["sessions"] = [{**dead, "until_ms": 600_000}, {**dead, "until_ms": 590_000}]
    assert [(row["until"], row[MAYBE]) for row in commit_silence(happened)] == [(600_000, True)]


@pytest.mark.parametrize(
    ("change", "is_sure"),
    [
        ({}, True),
        ({"groups": [{"group": "g", "commit_s": 120.0}]}, False),
        ({"ownership": ["dead"]}, False),
        ({"ownership": ["other"]}, False),
        ({"incidents": ["silent_owner"]}, False),
        ({"incidents": ["slow"]}, True),
    ],
)
def test_who_died_is_a_silent_owner_if_another_one_commits_every_minute(
    change: Truth, is_sure: bool
) -> None:
    usual: dict[str, list[Any]] = {
        "groups": [{"group": "g", "commit_s": 60.0}],
        "commits": [{"group": "g", "commits": 20, "quiet": 0}],
        "ownership": ["dead", "other"],
        "incidents": [],
    }
    happened: Truth = usual | change
    owned = {"group": "g", "from_ms": 0, "until_ms": None}
    happened["ownership"] = [owned | {"member": str(who)} for who in happened["ownership"]]
    planted = {"group": "g", "subject": "b", "from_ms": 0, "until_ms": 500_000}
    happened["incidents"] = [planted | {"kind": kind} for kind in happened["incidents"]]
    session = {"group": "g", "client_id": "a", "last_commit_ms": 100_000, "heard_ms": 100_000}
    happened["sessions"] = [
        session | {"member": "dead", "how": "crashed", "until_ms": 1_000_000},
        session | {"member": "other", "how": None, "until_ms": None},
    ]
    [dead] = [row for row in commit_silence(happened) if row["until"] == 1_000_000]
    assert dead[MAYBE] is not is_sure


def test_a_request_that_was_refused_does_not_say_how_long_a_member_was_away() -> None:
    session = {"group": "g", "instance": "i", "until_ms": None}
    old, new = {"member": "a", "from_ms": 0}, {"member": "b", "from_ms": 9_000, "heard_ms": None}
    for heard_ms, away_ms in ((6_000, 3_000), (9_001, None)):
        both = [{**session, **old, "heard_ms": heard_ms}, {**session, **new}]
        assert [row["away_ms"] for row in restarts({"sessions": both})] == [away_ms]


def test_a_group_ends_with_its_own_shard() -> None:
    session = {"group": "g", "from_ms": 0, "heard_ms": None, "until_ms": None, "how": None}
    happened: Truth = {
        "coordinators": [{"shard": shard, "until_ms": 1_000_000 + shard} for shard in (0, 1)],
        "groups": [{"group": "g", "partition": 4}],
        "sessions": [{**session, "member": "a"}, {**session, "member": "b"}],
        "ownership": [{**session, "member": "a", "partition": 0}],
    }
    assert [(row["member"], row["idle_ms"]) for row in idle_members(happened)] == [("b", 1_000_000)]


def test_leaders_assign_as_clients_do() -> None:
    assert ranges(["b", "a"], 5) == {"a": [0, 1, 2], "b": [3, 4]}
    first = sticky({"a": [0, 1, 2, 3], "b": []}, 4)
    assert first == {"a": [0, 1], "b": []}
    assert sticky(first, 4) == {"a": [0, 1], "b": [2, 3]}
    assert sticky({"a": [0, 1]}, 4) == {"a": [0, 1, 2, 3]}
