"""How what an observer tells is judged, and an hour of groups that one tells of."""

from pathlib import Path

import pytest

from tests.weeks.observed import causes, compared, is_good, judged, table
from tests.weeks.shards import make
from tests.weeks.weeks import Size


def test_causes_are_right_unknown_or_another() -> None:
    told = {
        1: "member_left",
        2: "member_left",
        3: "session_expired",
        4: "unknown",
        5: "member_left",
    }
    found = {1: "member_left", 2: "unknown", 3: "member_left", 4: "member_left"}
    verdicts = judged(told, found)
    assert [*table(verdicts)][2:] == [
        "| member_left | 1 | 2 | 0 |  |",
        "| session_expired | 0 | 0 | 1 | member_left 1 |",
        "| all | 1 | 2 | 1 | member_left 1 |",
    ]


@pytest.mark.parametrize(
    ("found", "good"),
    [("a" * 100, True), ("a" * 90 + "u" * 9 + "b", True), ("a" * 98 + "bb", False)],
)
def test_one_of_a_hundred_may_be_wrong(found: str, good: bool) -> None:
    names = {"a": "member_left", "b": "member_joined", "u": "unknown"}
    told = dict.fromkeys(range(100), "member_left")
    assert is_good(judged(told, {at: names[each] for at, each in enumerate(found)})) is good


@pytest.mark.slow
@pytest.mark.xdist_group("weeks")
def test_an_observer_of_a_served_log_tells_what_was_stored(tmp_path: Path) -> None:
    size = Size(
        groups=6,
        days=0.2,
        seed=5,
        partitions=2,
        incidents_a_day=48,
        sessions_s=(60, 300),
        rhythms_s=(30,),
        segment_bytes=1 << 26,
    )
    make(size, tmp_path)
    stored, inferred = compared(tmp_path, size.partitions)
    assert len(causes(stored)) > 20
    assert causes(inferred).keys() >= causes(stored).keys()
    assert is_good(judged(causes(stored), causes(inferred)))
