"""Pictures, as they are drawn: where marks are, how they look, and what is said of them."""

import re
from typing import Any

import pytest

from tests.web.drawn import NEEDS_NODE, Element, drawn, found, text_of

pytestmark = NEEDS_NODE


def lane(picture: dict[str, Any], **row: Any) -> Element:
    """The drawing of one row."""
    picture = {"rows": [row], **picture}
    made = drawn("lanes.js", 'paint(lanes([["name", "words"]]), picture)', picture=picture)
    [place] = [each for each in found(made, "span") if each["attributes"]["class"] == "lane"]
    [svg] = place["children"]
    return svg


def boxes(svg: Element) -> list[tuple[str, float, float, float, float]]:
    """Look, place, top, width and height of each box, of a thousand across."""
    box = r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z"
    return [
        (look, *map(float, each)) for look, d in paths(svg).items() for each in re.findall(box, d)
    ]


def paths(svg: Element) -> dict[str, str]:
    """By look."""
    return {each["attributes"]["class"]: each["attributes"]["d"] for each in found(svg, "path")}


def texts(svg: Element) -> list[str]:
    return [text_of(each) for each in found(svg, "text")]


def test_rows_have_a_name_and_words_that_are_read_and_a_lane_that_is_not():
    made = drawn(
        "lanes.js",
        'paint(lanes([["a", "1 of 2"], ["b", "3"]]), picture)',
        picture={"of": 1, "rows": [{}, {}]},
    )
    assert made["tag"] == "ol"
    assert [text_of(each) for each in made["children"]] == ["a1 of 2", "b3"]
    drawings = [svg for place in found(made, "span") for svg in place["children"] if "tag" in svg]
    assert [each["attributes"]["aria-hidden"] for each in drawings] == ["true", "true"]


def test_bars_are_at_parts_of_the_width():
    svg = lane({"of": 200}, bars=[[50, 100, "p1", "E"], [200, 200, "o0"]])
    assert boxes(svg) == [("p1", 250, 1, 250, 16), ("o0", 1_000, 1, 1.6, 16)]  # never invisible
    assert texts(svg) == ["E"]


def test_ticks_are_above_and_through_the_lanes():
    picture = {"of": 100, "ticks": [[0, "Mon"], [50, "Tue"], [100, "Wed"]], "rows": [{}]}
    made = drawn("lanes.js", 'paint(lanes([["a", ""]]), picture)', picture=picture)
    axis, row = made["children"]
    assert texts(axis) == ["Mon", "Tue", "Wed"]
    kinds = [each["attributes"]["class"].split()[1] for each in found(axis, "text")]
    assert kinds == ["begin", "middle", "end"]
    assert paths(row)["grid"] == "M0 0V18M500 0V18M1000 0V18"


def test_marks_have_the_look_and_the_height_of_their_letters():
    svg = lane({"of": 4}, marks=".ajw")
    marks = boxes(svg)
    assert [each[:2] for each in marks] == [("p0", 250), ("p1", 500), ("p6", 750)]
    assert marks[0][-1] < marks[1][-1] < marks[2][-1] == 16
    assert {top + height for _, _, top, _, height in marks} == {17}


def test_columns_stand_upon_each_other_below_their_axis():
    row = {"columns": [[0, 1, "p0", 0, 2], [0, 1, "p3", 2, 4]], "most": 8, "tall": 80}
    svg = lane({"of": 2}, axis=[[0, "0"], [8, "8"]], **row)
    assert boxes(svg) == [("p0", 0, 60, 500, 20), ("p3", 0, 40, 500, 20)]
    assert texts(svg) == ["0", "8"]


def test_a_line_is_stretched_and_its_ring_is_round():
    svg = lane({"of": 4}, line=[[0, 0], [4, 10]], rings=[[2, 5]], most=10, tall=100)
    assert paths(svg)["line"] == "M0 100L1000 0"
    assert paths(svg)["area"] == "M0 100L1000 0V100H0z"
    [ring] = found(svg, "circle")
    assert (ring["attributes"]["cx"], ring["attributes"]["cy"]) == ("50%", "50")
    assert svg["children"][0]["attributes"]["viewBox"] == "0 0 1000 100"
    assert svg["children"][0]["attributes"]["preserveAspectRatio"] == "none"


def test_rules_go_through_each_lane():
    svg = lane({"of": 4, "rules": [1]}, marks="....")
    assert paths(svg)["rule"] == "M250 0V18"


@pytest.mark.parametrize(
    ("owners", "letters", "looks"),
    [
        ([0, 0, 50, 1], ["A", "▸B"], ["o0", "o1"]),
        ([0, 0, 50, -1, 51, 0], ["A"], ["o0", "o0", "unowned"]),  # a gap is above the others
        ([0, 0, 50, -1, 51, 9], ["A", "▸J"], ["o0", "o1", "unowned"]),
        ([0, 26, 50, -2], ["A1"], ["o2", "none"]),
        ([0, 0, 99, 1], ["A"], ["o0", "o1"]),  # no room for a letter
    ],
)
def test_owners_have_letters_and_what_moved_is_marked(owners, letters, looks):
    svg = lane({"of": 100}, owners=owners)
    assert [each for each in texts(svg) if each] == letters
    assert [each[0] for each in boxes(svg)] == looks


def test_a_legend_says_looks_and_letters():
    given = {"legend": [["unowned", "no owner"]], "owners": ["x", None, "z"]}
    made = drawn("lanes.js", "legend(given)", given=given)
    assert [text_of(each) for each in found(made, "li")] == [" no owner", "A x", "C z"]
    looks = [each["attributes"]["class"] for each in found(made, "rect")]
    assert looks == ["unowned", "o0", "o2"]


def test_each_look_of_a_cause_has_a_texture():
    made = drawn("lanes.js", "textures()")
    names = [each["attributes"]["id"] for each in found(made, "pattern")]
    assert names == [*(f"p{number}" for number in range(8)), "unowned"]


# -- pictures of the page --------------------------------------------------------------------------


def rounds_of(*owners: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [
        {
            "epoch": 1,
            "round": number,
            "generation": number + 4,
            "ended_at_ms": 1_794_182_400_000,
            "outcome": "completed",
            "partitions": 2,
            "assignment": [
                {"member": member, "instance": None, "partitions": {"t": numbers}}
                for member, numbers in each.items()
            ],
        }
        for number, each in enumerate(owners)
    ]


def test_ownership_after_each_rebalance_is_a_lane_a_partition():
    rounds = rounds_of({"a": [0, 1]}, {"a": [0], "b": [1]}, {"b": [1]})
    made = drawn("ownership.js", "ownershipPicture(rounds)", rounds=rounds)
    picture, legend = made[1], made[3]
    axis, first, second = picture["children"]
    assert texts(axis) == ["4", "5", "6"]
    assert text_of(first).startswith("t-0")
    assert text_of(first).endswith("\N{EN DASH}")
    assert [each for each in texts(first) if each] == ["A"]
    assert text_of(second).endswith("B b")
    assert [each for each in texts(second) if each] == ["A", "▸B"]
    assert text_of(legend) == " nobodyA aB b"
    [table] = found(made[4], "tbody")
    assert [text_of(each) for each in found(table, "td")] == [
        "a",
        "a",
        "\N{EN DASH}",
        "a",
        "b",
        "b",
    ]


def test_what_a_cut_list_of_assignments_does_not_say_is_unknown():
    rounds = rounds_of({"a": [0, 1]}, {"a": [0]})
    rounds[1]["partitions"] = None
    made = drawn("ownership.js", "ownershipPicture(rounds)", rounds=rounds)
    assert text_of(made[1]["children"][2]).endswith("?")
    assert "unknown: the list of assignments was cut" in text_of(made[3])


def test_lag_is_a_line_over_an_hour():
    at = 1_794_182_400_000
    history = [{"at_ms": at - 1_800_000, "records": 30, "lag_ms": None}]
    lag = {"at_ms": at, "records": 10, "lag_ms": 5_000, "partitions": [{}], "history": history}
    made = drawn("lag.js", "lagPicture(lag)", lag=lag)
    assert text_of(made[0]).startswith("10 records, 5.0 s behind now.")
    axis, row = made[1]["children"]
    assert texts(axis) == [*(f"\N{MINUS SIGN}{each} min" for each in (60, 40, 20)), "now"]
    assert "at most 30" in text_of(row)
    assert paths(row)["line"] == "M500 37.5L1000 112.5"
