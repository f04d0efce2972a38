"""What the targets of reset-offsets and the files of plans mean."""

import pytest

from groupkeeper.cli.reset_plan import read_datetime, read_duration, read_plans, write_plans


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("P1D", 86_400),
        ("PT2H30M", 9_000),
        ("PT90S", 90),
        ("PT0.5S", 0.5),
        ("P1DT-1H", 82_800),
        ("-PT5M", -300),
        ("p2dt3h4m5s", 183_845),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds * 1000


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "5", "1D", "P1W", "PT1.5H", "P1DX"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration such as P1D"):
        read_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T08:00:00.250",
        "2026-11-21T08:00:00.250Z",
        "2026-11-21T10:00:00.250+02:00",
    ],
)
def test_times_are_utc_unless_they_have_a_zone(text: str) -> None:
    assert read_datetime(text) == 1_795_248_000_250


def test_a_plan_for_one_group() -> None:
    text = 'orders,0,5\n"a topic, with a comma",1,0\n\n'
    assert read_plans(text, "g") == {"g": {("orders", 0): 5, ("a topic, with a comma", 1): 0}}


def test_a_plan_names_its_groups() -> None:
    text = "g,orders,0,5\nh,orders,0,6\n"
    for group in ("g", None):
        assert read_plans(text, group) == {"g": {("orders", 0): 5}, "h": {("orders", 0): 6}}


def test_what_is_written_can_be_read() -> None:
    plans = {"g": {("orders", 1): 5, ("orders", 0): 7}, 'h"': {("p", 0): 1}}
    assert read_plans(write_plans(plans, with_group=True), None) == plans
    one = {"g": plans["g"]}
    assert write_plans(one, with_group=False) == "orders,0,7\norders,1,5\n"


@pytest.mark.parametrize("line", ["orders,0", "orders,x,5", "g,orders,0,-1", "g,orders,0,5,6"])
def test_a_line_that_is_none(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2 is not \[group,\]topic,partition,offset$"):
        read_plans(f"orders,0,1\n{line}\n", "g")


def test_a_plan_without_groups_needs_one() -> None:
    with pytest.raises(ValueError, match=r"^line 1 is not group,topic,partition,offset$"):
        read_plans("orders,0,1\n", None)
