"""What people do with a report. A journey raises AssertionError where it does not get on."""

import re
from collections.abc import Callable
from typing import Final

from playwright.sync_api import Locator

from tests.suites.browsing.window import Window

Journey = Callable[[Window], None]
_FOCUS: Final = """(() => {
  const focus = document.activeElement;
  return [focus.tagName, getComputedStyle(focus).outlineStyle];
})()"""
ALL_GROUPS: Final = "#groups-table"


def read_the_findings(window: Window) -> None:
    """They come first, and lead to what they are about."""
    window.open()
    first = window.find("#finding-1")
    window.wait_text(first, "payments", "max.poll.records 500 → 80", "Evidence")
    assert _top(first) < _top(window.section("What was read"))
    window.find("#finding-3").get_by_role("link", name="billing").click()
    assert window.until(lambda: _is_seen(window, window.find("#group-2")))
    window.find("#rate a[href='#finding-3']").click()
    assert window.until(lambda: _is_seen(window, window.find("#finding-3")))


def look_at_all_groups_over_time(window: Window) -> None:
    """Both pictures have one axis of time."""
    window.open("time")
    for name in ("Rebalances per 2 hours, by cause", "When groups rebalanced"):
        assert window.page.locator("figure", has_text=name).count() == 1
    left, right = (_ticks(window, name) for name in ("rate", "timeline"))
    assert left == right


def open_a_group(window: Window) -> None:
    """The first one is open; others open, too."""
    window.open("groups")
    panels = window.find(".group-panel")
    window.wait_text(panels, "payments", "Who owned which partition", "Commits and lag")
    assert window.find("#group-1-owners path.unowned").count() > 5
    assert window.find("#group-1-curves path.line").count() == 2
    second = window.find("#group-2-owners")
    assert not second.is_visible()
    panels.nth(1).locator("summary").click()
    assert second.is_visible()


def see_what_it_cost(window: Window) -> None:
    window.open("cost")
    words = "How long groups were not stable"
    assert window.page.locator("figcaption", has_text=words).count() == 1
    assert window.find("#what-if-2 circle").count() == 3, "today is not marked"
    window.open("tables")
    for name, first_row in (
        ("barrier", ("payments-2", "10.0.0.6", "2 h 37 min")),
        ("restart_gaps", ("shipping-labels", "45 s", "60 s")),
        ("idle_members", ("a-17", "10 d", "100 %")),
    ):
        table = window.page.locator("details.table", has=window.find(f"caption:text-is('{name}')"))
        table.locator("summary").click()
        window.wait_text(table.locator("tbody tr").first, *first_row)


def see_every_mark(window: Window) -> None:
    """Marks, columns, lines and owners are within their lanes, and have colours."""
    window.open()
    _open_groups(window)
    for name in ("#rate", "#timeline", "#not-stable", "#group-1-owners", "#what-if-2"):
        lanes, marks = (_boxes(window, f"{name} .lane"), _boxes(window, f"{name} .lane path"))
        assert marks, name
        left, right = (
            edge(each["x"] + wide * each["width"] for each in lanes)
            for edge, wide in ((min, 0), (max, 1))
        )
        outside = [
            each for each in marks if each["x"] < left - 1 or each["x"] + each["width"] > right + 3
        ]
        assert not outside, (name, outside[:3], left, right)
    fills = window.find(".lane path").evaluate_all(
        "all => all.map(each => getComputedStyle(each).fill)"
    )
    assert "rgb(0, 0, 0)" not in fills, "a look has no colour"


def sort_a_table(window: Window) -> None:
    """With a pointer, with the keyboard, and with what is not known at the end both ways."""
    window.open("all")
    window.find(f"{ALL_GROUPS} th button").first.click()
    rows = window.find(f"{ALL_GROUPS} tbody tr")
    assert "<b>promo</b>" in rows.first.inner_text()
    assert window.find(f"{ALL_GROUPS} th[aria-sort=ascending]").inner_text().startswith("group")
    number = window.find(f"{ALL_GROUPS} th button").nth(1)
    number.focus()
    window.page.keyboard.press("Enter")
    counts = [int(each.replace(",", "")) for each in _column(window, 2)]
    assert counts == sorted(counts, reverse=True)
    number.press("Enter")
    assert [int(each.replace(",", "")) for each in _column(window, 2)] == sorted(counts)


def open_a_table(window: Window) -> None:
    window.open("tables")
    table = window.find("details.table").first
    table.locator("summary").click()
    assert table.locator("tbody tr").first.is_visible()


def keep_nobody_out(window: Window) -> None:
    """With all groups and some tables shown."""
    window.open()
    _open_groups(window)
    summaries = window.find("details.table summary")
    for number in range(3):
        summaries.nth(number).click()
    window.check()


def read_in_the_dark(window: Window) -> None:
    """This window prefers dark colours; the contrast is among what is checked."""
    window.open()
    ground = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground))) < 64, ground
    _open_groups(window)
    window.check()


def reach_everything_with_keys(window: Window) -> None:
    """Links, tables that scroll, groups and buttons: each is seen when it has the focus."""
    window.open()
    seen = set()
    for _ in range(400):
        window.page.keyboard.press("Tab")
        found = window.page.evaluate(_FOCUS)
        if found[0] == "BODY":
            break
        assert found[1] != "none", f"the focus cannot be seen: {found}"
        seen.add(found[0])
    assert {"A", "DIV", "BUTTON", "SUMMARY"} <= seen, seen


def print_it(window: Window) -> None:
    """On paper all groups are there, and nothing that only a screen can use."""
    window.open()
    window.page.emulate_media(media="print")
    assert not window.find("nav").is_visible()
    paper = window.page.pdf(format="A4")
    assert window.find(".group-panel:not([open])").count() == 0
    assert paper.startswith(b"%PDF")
    assert 10 < paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") < 60


def _ticks(window: Window, name: str) -> list[str]:
    return [f"{each['x']:.0f}" for each in _boxes(window, f"#{name} .ticks text")]


def _boxes(window: Window, what: str) -> list[dict[str, float]]:
    """Where elements are, in pixels."""
    told = "all => all.map(each => each.getBoundingClientRect().toJSON())"
    found: list[dict[str, float]] = window.find(what).evaluate_all(told)
    return found


def _open_groups(window: Window) -> None:
    window.find(".group-panel").evaluate_all("all => all.forEach((each) => { each.open = true; })")


def _column(window: Window, number: int) -> list[str]:
    return window.find(f"{ALL_GROUPS} tbody tr td:nth-child({number})").all_inner_texts()


def _top(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"]


def _is_seen(window: Window, place: Locator) -> bool:
    height = window.page.viewport_size["height"] if window.page.viewport_size else 0
    return -5 <= _top(place) < height


SHORT: Final = (keep_nobody_out, read_in_the_dark)
"""Made with a short report: what looks for broken rules takes long for many elements."""
JOURNEYS: Final[tuple[Journey, ...]] = (
    read_the_findings,
    look_at_all_groups_over_time,
    open_a_group,
    see_what_it_cost,
    see_every_mark,
    sort_a_table,
    open_a_table,
    keep_nobody_out,
    read_in_the_dark,
    reach_everything_with_keys,
    print_it,
)
