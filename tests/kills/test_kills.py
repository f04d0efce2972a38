"""Two kills under two libraries' consumers, and what the ledger keeps; `make kills` does 200."""

from pathlib import Path
from random import Random

import pytest

from groupkeeper.protocol.group_events import TOPIC, Event, encode
from groupkeeper.protocol.record_batch import encode_batch
from tests.chaos.damage.truth import Stored
from tests.clients.libraries import AIOKAFKA, CONFLUENT
from tests.kills import changes, observers, seats
from tests.kills.compaction import KILLS_FOR_ONE, Compactions
from tests.kills.ledger import NO_MOST, Ledger
from tests.kills.run import Plan, Report, run, words
from tests.truth.observed.observers import Observer

PLACE = ("read", 0)


@pytest.mark.clients
@pytest.mark.slow
def test_two_kills_lose_nothing_and_move_nobody(tmp_path: Path) -> None:
    plan = Plan(kills=2, libraries=(AIOKAFKA, CONFLUENT), administrators=(), raw=3, once=40)
    report = run(plan, tmp_path)
    assert not report.bad, "\n".join(words(report))
    assert report.kills == 2
    assert len(report.commits_by) == 3 + 4 + 1
    assert report.once >= 38
    assert report.deleted > 0
    assert report.stored > 10
    assert 0 < report.slowest_recovery[0] < 60


def test_what_was_acknowledged_only_rises() -> None:
    ledger = Ledger()
    ledger.commits("one", "g", {PLACE: 7})
    ledger.commits("other", "g", {PLACE: 5})
    assert ledger.copy().groups["g"].acknowledged == {PLACE: 7}
    assert ledger.total == 2


def test_what_was_sent_bounds_what_is_found_once_nobody_works() -> None:
    ledger = Ledger()
    ledger.sends("g", {PLACE: 8})
    ledger.commits("one", "g", {PLACE: 7}, bounded=True)
    ledger.stores(PLACE, 3, Stored(1, b"v"))
    assert ledger.copy().groups["g"].sent == {PLACE: NO_MOST}
    assert ledger.copy().records == {}
    assert ledger.copy(over=True).groups["g"].sent == {PLACE: 8}
    assert ledger.copy(over=True).records == {PLACE: {3: Stored(1, b"v")}}


def test_a_group_is_promised_nothing_while_it_is_deleted_and_is_unknown_afterwards() -> None:
    ledger = Ledger()
    ledger.sends("g", {PLACE: 7})
    ledger.commits("one", "g", {PLACE: 7}, bounded=True)
    ledger.gives_up("g")
    given_up = ledger.copy(over=True).groups["g"]
    assert (given_up.acknowledged, given_up.sent) == ({}, {PLACE: 7})
    ledger.deletes("g")
    assert ledger.copy().groups == {}


def test_a_client_recovers_with_its_first_commit_after_a_ready_line() -> None:
    ledger = Ledger()
    ledger.ready(["one", "other"])
    ledger.commits("one", "g", {PLACE: 1})
    assert ledger.silent == ["other"]
    assert ledger.slowest.keys() == {"one"}


def test_compactions_are_counted_over_all_lives_and_those_that_were_killed(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "data" / "__consumer_offsets-7"
    folder.mkdir(parents=True)
    log.write_text('{"event": "log compacted"}\n{"event": "ready"}\n{"event": "log compacted"}\n')
    compactions = Compactions(tmp_path / "data", log, Random(1))
    (folder / "00000000000000000000.log.5eed.cleaned").touch()
    compactions.killed()
    compactions.killed()
    (folder / "00000000000000000000.log.5eed.cleaned").rename(folder / "0.log.swap")
    compactions.killed()
    assert compactions.ended == 2
    assert compactions.interrupted == {"cleaned": 2, "swap": 1}
    assert compactions.unfinished() == {"swap"}
    assert not compactions.too_few(2 * KILLS_FOR_ONE)
    assert "2 compactions" in compactions.too_few(3 * KILLS_FOR_ONE)


@pytest.mark.parametrize("wrong", ["losses", "rebalances", "stuck", "unclean"])
def test_any_of_these_is_bad_and_told(wrong: str) -> None:
    report = Report()
    assert not report.bad
    getattr(report, wrong).append("kill 3: something")
    assert report.bad
    assert words(report)[-1].endswith("kill 3: something")


@pytest.mark.slow
def test_two_kills_in_the_middle_of_hand_overs(tmp_path: Path) -> None:
    found = seats.run(2, 3, tmp_path, lambda _: None)
    assert found.broken == [], "\n".join(seats.words(found))
    assert found.kills == 2
    assert found.counts["seats reserved"] >= found.counts["seats gone"]
    assert found.counts["seats reserved"] > 0


@pytest.mark.slow
def test_a_killed_observer_has_the_events_of_one_that_was_not(tmp_path: Path) -> None:
    found = observers.run(observers.Plan(kills=4, threads=2), tmp_path)
    assert found.wrong == [], "\n".join(observers.words(found))
    assert found.kills == 4
    assert found.failures == 0
    assert found.rebalances > 20
    assert found.commits > 100


def test_events_that_are_missing_or_there_twice_are_told(tmp_path: Path) -> None:
    one, two = (Event(seq, 0, -1, 5, 0, "g", "group_created") for seq in range(2))
    made = {"steady": [one, two], "killed": [one, two, two], "fresh": [one]}
    found = []
    for name, events in made.items():
        observer = Observer("", tmp_path / name)
        folder = observer.data / f"{TOPIC}-0"
        folder.mkdir(parents=True)
        records = [(b"g", encode(each)) for each in events]
        (folder / "00000000000000000000.log").write_bytes(encode_batch(0, 0, 5, records))
        found.append(observer)
    report = observers.Report()
    observers.compare(report, *found)
    assert report.events == 2
    assert [each.partition(", first")[0] for each in report.wrong] == [
        *("killed, partition 0: 1 events", "fresh, partition 0: 1 events")
    ]


def test_kills_during_changes_of_users_and_acls(tmp_path: Path) -> None:
    found = changes.run(40, 5, tmp_path)
    assert found.wrong == [], "\n".join(changes.words(found))
    assert found.changes >= 40
    assert found.kills >= changes.LEAST_KILLS
    assert found.users + found.acls > 0


@pytest.mark.parametrize("half", [{"a": 1, "b": 2}, {"b": 1}, {}])
def test_half_a_change_is_wrong(half: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As is one that was acknowledged and is not there."""
    users, report = changes.Users("users", 1), changes.Report()
    users.acknowledged, users.under_way = {"a": 1}, {"a": 2, "b": 2}
    monkeypatch.setattr(users, "found", lambda _: half)
    users.check(None, report)  # type: ignore[arg-type]
    assert len(report.wrong) == 1
    for whole in ({"a": 1}, {"a": 2, "b": 2}):
        users.acknowledged, users.under_way = {"a": 1}, {"a": 2, "b": 2}
        monkeypatch.setattr(users, "found", lambda _, whole=whole: whole)
        users.check(None, report)  # type: ignore[arg-type]
    assert len(report.wrong) == 1
    assert report.under_way == 3 and report.kept == 1
