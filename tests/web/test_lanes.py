"""Pictures, as they are drawn: where marks are, how they look, and what is said of them."""

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


def rects(svg: Element) -> list[tuple[str, str, str]]:
    """Where each box begins, how wide it is, and its look."""
    return [
        tuple(each["attributes"][key] for key in ("x", "width", "class"))
        for each in found(svg, "rect")
    ]


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
    assert [each["attributes"]["aria-hidden"] for each in found(made, "svg")] == ["true", "true"]


def test_bars_are_at_parts_of_the_width():
    svg = lane({"of": 200}, bars=[[50, 100, "p1", "E"], [200, 200, "o0"]])
    assert rects(svg) == [("25%", "25%", "p1"), ("100%", "0.17%", "o0")]  # never invisible
    assert texts(svg) == ["E"]


def test_ticks_are_above_and_through_the_lanes():
    picture = {"of": 100, "ticks": [[0, "Mon"], [50, "Tue"], [100, "Wed"]], "rows": [{}]}
    made = drawn("lanes.js", 'paint(lanes([["a", ""]]), picture)', picture=picture)
    axis, row = made["children"]
    assert texts(axis) == ["Mon", "Tue", "Wed"]
    kinds = [each["attributes"]["class"].split()[1] for each in found(axis, "text")]
    assert kinds == ["begin", "middle", "end"]
    assert [each["attributes"]["x1"] for each in found(row, "line")] == ["0%", "50%", "100%"]


def test_marks_have_the_look_and_the_height_of_their_letters():
    svg = lane({"of": 4}, marks=".ajw")
    assert rects(svg) == [("25%", "22.5%", "p0"), ("50%", "22.5%", "p1"), ("75%", "22.5%", "p6")]
    few, some, many = (float(each["attributes"]["height"]) for each in found(svg, "rect"))
    assert few < some < many


def test_columns_stand_upon_each_other_below_their_axis():
    row = {"columns": [[0, 1, "p0", 0, 2], [0, 1, "p3", 2, 4]], "most": 8, "tall": 80}
    svg = lane({"of": 2}, axis=[[0, "0"], [8, "8"]], **row)
    sizes = [(each["attributes"]["y"], each["attributes"]["height"]) for each in found(svg, "rect")]
    assert sizes == [("60", "20"), ("40", "20")]
    assert texts(svg) == ["0", "8"]


def test_a_line_is_stretched_and_its_ring_is_round():
    svg = lane({"of": 4}, line=[[0, 0], [4, 10]], rings=[[2, 5]], most=10, tall=100)
    [line], [area], [ring] = (found(svg, tag) for tag in ("polyline", "polygon", "circle"))
    assert line["attributes"]["points"] == "0,100 4,0"
    assert area["attributes"]["points"] == "0,100 0,100 4,0 4,100"
    assert (ring["attributes"]["cx"], ring["attributes"]["cy"]) == ("50%", "50")
    [inner] = [each for each in svg["children"] if each != "" and each["tag"] == "svg"]
    assert inner["attributes"]["viewBox"] == "0 0 4 100"


def test_rules_go_through_each_lane():
    svg = lane({"of": 4, "rules": [1]}, marks="....")
    assert [each["attributes"]["class"] for each in found(svg, "line")] == ["rule"]


@pytest.mark.parametrize(
    ("owners", "letters", "looks"),
    [
        ([0, 0, 50, 1], ["A", "▸B"], ["o0", "o1"]),
        ([0, 0, 50, -1, 51, 0], ["A"], ["o0", "o0", "unowned"]),
        ([0, 0, 50, -1, 51, 9], ["A", "▸J"], ["o0", "o1", "unowned"]),
        ([0, 26, 50, -2], ["A1"], ["o2", "none"]),
        ([0, 0, 99, 1], ["A"], ["o0", "o1"]),  # no room for a letter
    ],
)
def test_owners_have_letters_and_what_moved_is_marked(owners, letters, looks):
    svg = lane({"of": 100}, owners=owners)
    assert [each for each in texts(svg) if each] == letters
    assert [look for _, _, look in rects(svg)] == looks


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
    [line] = found(row, "polyline")
    assert line["attributes"]["points"] == "1800000,37.5 3600000,112.5"
