import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clients.libraries import CONFLUENT
from tests.truth.observed.plays import Outcome, run, to_play, waves
from tests.truth.observed.situations import Situation
from tests.truth.observed.wave import Wave
from tests.truth.play import KAFKA_PYTHON


def a_situation(name: str, **more: Any) -> Situation:
    return Situation(name, CONFLUENT, (), lambda _: None, **more)


def test_plays_of_a_wave_wait_for_each_other() -> None:
    wave, done, meetings = Wave(3), list[str](), 4

    def plays(name: str) -> None:
        for number in range(meetings):
            done.append(name)
            wave.meet(lambda: done.append(f"killed {number}"))  # noqa: B023  # called at once

    with ThreadPoolExecutor(3) as pool:
        [*pool.map(plays, "abc")]
    for number in range(meetings):
        some = done[number * 4 : number * 4 + 4]
        assert sorted(some[:3]) == ["a", "b", "c"]
        assert some[3] == f"killed {number}"


def test_nobody_waits_for_a_play_that_has_ended() -> None:
    wave, killed = Wave(2), threading.Event()
    waiting = threading.Thread(target=wave.meet, args=(killed.set,))
    waiting.start()
    assert not killed.is_set()
    wave.leave()
    waiting.join(10)
    assert killed.is_set()


def test_all_groups_of_a_wave_have_one_coordinator() -> None:
    cluster: Any = SimpleNamespace(coordinator_of=lambda name: 2 if name.endswith("7") else 1)
    wave = Wave(2)
    groups: list[Any] = [SimpleNamespace(name=name) for name in ("a", "b7")]
    for each in groups:
        wave.place(each, cluster)
    assert wave.broker == 1
    assert [each.name for each in groups] == ["a", "b7-0"]


def test_no_name_fits() -> None:
    brokers = iter([1] * 20)
    cluster: Any = SimpleNamespace(coordinator_of=lambda _: next(brokers, 2))
    with pytest.raises(AssertionError, match="broker 1 coordinates none of 200 names"):
        Wave(1).place(SimpleNamespace(name="a"), cluster)  # type: ignore[arg-type]


def test_a_wave_is_of_one_situation() -> None:
    away, killed = a_situation("away", is_in_wave=True), a_situation("killed", is_in_wave=True)
    jobs = [(away, 1), (killed, 1), (away, 2), (killed, 2), (away, 3)]
    found = [[(each.name, number) for each, number in some] for some in waves(jobs, 2)]
    assert found == [[("away", 1), ("away", 2)], [("away", 3)], [("killed", 1), ("killed", 2)]]


def test_only_plays_whose_broker_is_killed_get_a_wave() -> None:
    got = {}

    def player(situation: Situation, number: int, wave: Wave | None) -> Outcome:
        got[situation.name, number] = wave
        return Outcome(situation.name, CONFLUENT.name, number, 1.0)

    jobs = [(a_situation("away", is_in_wave=True), 1), (a_situation("kill"), 1)]
    [*_] = run([*jobs, (jobs[0][0], 2)], None, 2, player)
    assert got["kill", 1] is None
    assert got["away", 1] is got["away", 2] is not None


def test_what_is_one_of_many_is_played_once() -> None:
    once = Situation("by chance", KAFKA_PYTHON, (), lambda _: None, is_once=True)
    jobs = to_play([once, a_situation("kill")], 2, [])
    assert sorted((each.name, number) for each, number in jobs) == [
        ("by chance", 1),
        ("kill", 1),
        ("kill", 2),
    ]
