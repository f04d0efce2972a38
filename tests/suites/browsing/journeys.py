"""What people do with the page. A journey raises AssertionError where it does not get on."""

import re
from collections.abc import Callable
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from tests.suites.browsing.scene import (
    GROUP,
    HOSTILE,
    PARTITIONS,
    RECORDS,
    TOPIC,
    Scene,
    finish,
    rebalance,
)
from tests.suites.browsing.window import Window

ADDRESS: Final = f"/groups/{GROUP}"
ROUNDS: Final = ".rounds > li:not(.events)"
"""Rebalances, without the events between them."""
EVENTS: Final = "Rebalances and other events"
Journey = Callable[[Window, Scene], None]


def find_a_group(window: Window, scene: Scene) -> None:
    """Among ten thousand, by a part of its id; and by pages."""
    window.open("/")
    all_groups = f"{scene.groups:,} groups"
    window.wait_text(window.find(".found"), all_groups, "1 to 50")
    window.find("a[rel=next]").click()
    window.wait_text(window.find(".found"), "51 to 100")
    window.find("a[rel=prev]").click()
    window.wait_text(window.find(".found"), "1 to 50")
    window.check()
    if window.size == "desktop":
        window.save(scene.images / "groups.png", 480)
    window.find("#state").select_option("Stable")
    window.wait_text(window.find(".found"), "2 groups fit.")
    window.find("#search").fill("ILLIN")
    window.wait_text(window.find(".found"), "1 group fits.")
    window.named("link", GROUP).click()
    window.wait_text(window.find("h1"), GROUP)
    window.wait_text(window.find(".facts"), "Stable", "consumer", "range")


def read_why(window: Window, scene: Scene) -> None:
    """The paragraph is the server's, word for word."""
    read_the_last_round(window, "joined as a new member.")
    if window.size == "desktop":
        window.wait_text(window.section("Ownership of partitions"), "Show as a table")
        window.save(scene.images / "group.png", 360, window.find(".columns"))


def read_the_last_round(window: Window, *texts: str) -> Any:
    """Open a row that has these texts, and compare its paragraph with the API's; the round there.
    Any: JSON.
    """
    window.open(ADDRESS)
    first = window.find(ROUNDS).first
    window.wait_text(first, *texts)
    first.locator("summary").click()
    [found] = window.get(f"groups/{GROUP}/rounds?last=1")["rounds"]
    window.wait_text(first.locator(".paragraph"), " ".join(found["text"].split()))
    window.check()
    return found


def follow_a_round(window: Window, scene: Scene) -> None:
    """Without touching the page: a member joins, the others follow, it is over; it leaves."""
    window.open(ADDRESS)
    now, rounds = window.find(".barrier"), window.find(ROUNDS)
    window.wait_text(now, "No rebalance is in progress.")
    window.wait_text(rounds, "completed")
    before = rounds.count()
    new = scene.member("billing-new")
    new.ask()
    window.wait_text(now, "Join phase", "billing-new", "1 of 4 members sent JoinGroup")
    window.wait_text(rounds, "under way")
    rebalance([*scene.consumers, new])
    window.wait_text(now, "No rebalance is in progress.")
    window.wait_text(rounds, "billing-new", "completed")
    new.leave()
    rebalance(scene.consumers)
    window.wait_text(rounds, "billing-new", "left", "completed")
    assert rounds.count() > before


def see_who_is_missing(window: Window, scene: Scene) -> None:
    """And what happens when: it is counted down."""
    window.open(ADDRESS)
    now = window.find(".barrier")
    window.wait_text(now, "No rebalance is in progress.")
    new = scene.member("billing-late")
    new.ask()
    first, *others = scene.consumers
    first.ask_when_told()
    try:
        _look_at_the_barrier(window, scene, [each.name for each in others])
    finally:
        for each in others:
            each.ask_when_told()
        finish([*scene.consumers, new])
        window.wait_text(now, "No rebalance is in progress.")
        new.leave()
        rebalance(scene.consumers)


def _look_at_the_barrier(window: Window, scene: Scene, late: list[str]) -> None:
    now = window.find(".barrier")
    window.wait_text(now, "2 of 4 members sent JoinGroup", "In (2)", "Missing (2)")
    missing = window.wait_text(now.locator(".sides > div").nth(1), "Missing (2)")
    assert all(each in missing for each in late), missing
    left = _seconds(window.wait_text(now, "the join phase ends"))
    assert window.until(lambda: 0 < _seconds(now.inner_text()) < left), "nothing counts down"
    window.find(f"{ROUNDS} summary").nth(1).click()
    window.check()
    if window.size == "desktop":
        window.save(scene.images / "barrier.png", 460)


def _seconds(text: str) -> int:
    found = re.search(r"in (\d+) s the join phase ends", text)
    return int(found[1]) if found else 0


def see_the_owners(window: Window, scene: Scene) -> None:
    """The picture, the table beside it, and what the API says are the same."""
    window.open(ADDRESS)
    place = window.section("Ownership of partitions")
    window.wait_text(place, "Show as a table")
    rows = place.locator(".lanes li:not(.axis)")
    assert rows.count() == PARTITIONS
    assert rows.first.locator("path").count() >= 2
    place.locator("summary").click()
    [last] = window.get(f"groups/{GROUP}/rounds?last=1")["rounds"]
    for each in last["assignment"]:
        for number in each["partitions"][TOPIC]:
            row = place.locator("tbody tr", has_text=f"{TOPIC}-{number}")
            cell = row.locator("td").last.inner_text()
            assert each["member"].startswith(cell), (cell, each)
            window.wait_text(rows.filter(has_text=f"{TOPIC}-{number}"), cell)
    window.check()


def see_the_lag(window: Window, scene: Scene) -> None:
    """In records and time, over time, and by partition."""
    look_at_the_lag(window, "behind now.")


def look_at_the_lag(window: Window, told: str) -> None:
    """The first line ends so; it, the line over time and the table are what the API says."""
    window.open(ADDRESS)
    lag = window.get(f"groups/{GROUP}/lag")
    place = window.section("Lag in the last hour")
    window.wait_text(place, f"{lag['records']:,} records", told)
    window.wait_text(place.locator(".lanes"), "Records", "at most")
    assert place.locator("path.line").count() == 1
    place.locator("summary").click()
    window.wait_text(place.locator("tbody"), f"{lag['records']:,}")
    rows = window.section("Offsets").first.locator("tbody tr")
    assert rows.count() == PARTITIONS
    window.wait_text(rows.last, "5 200 240 40")
    window.check()


def see_what_happened_without_a_rebalance(window: Window, scene: Scene) -> None:
    """Clients take the place of a static member again and again: one row, which opens."""
    group = f"steady-{window.size}"
    members = [scene.member("pod-0", group, "pod-0")]
    members[0].settle()
    for _ in range(3):
        members.append(scene.member("pod-0", group, "pod-0"))
        members[-1].settle_again()
    assert members[0].beat() == ErrorCode.FENCED_INSTANCE_ID
    window.open(f"/groups/{group}")
    rows = window.find(".rounds .events")
    window.wait_text(rows.first, "pod-0", "was fenced", "member_fenced")
    window.wait_text(
        rows.nth(1), "3 \N{MULTIPLICATION SIGN}", "pod-0 changed hands 3 times in", "UTC"
    )
    rows.nth(1).locator("summary").click()
    entries = window.get(f"groups/{group}/why")["entries"]
    last = [each for each in entries if each.get("type") == "member_replaced"][-1]
    window.wait_text(rows.nth(1).locator(".lines li"), last["text"].partition("Z  ")[2])
    window.check()
    for each in members:
        each.client.close()


def change_a_group(window: Window, scene: Scene) -> None:
    """Remove a member, reset and delete offsets, delete the group; each is shown before."""
    group = f"changed-{window.size}"
    member = scene.member("worker", group)
    member.settle()
    assert member.committed({(TOPIC, 0): 200}) == {0}
    window.open(f"/groups/{group}")
    dialog = window.find("dialog")
    _choose(window, "Reset offsets\N{HORIZONTAL ELLIPSIS}", "stop its consumers first")
    window.page.keyboard.press("Escape")
    assert window.until(lambda: dialog.count() == 0)
    assert window.find("h1").inner_text() == group, "Escape closes the dialog alone"
    _choose(window, "Remove members\N{HORIZONTAL ELLIPSIS}", "Choose the members to remove.")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("textbox").fill("ticket 4711")
    window.wait_text(dialog, "1 of 1 member will be removed, and the group will be Empty.")
    window.check()
    _confirm(window, "Remove", "1 member removed.")
    rounds = window.find(ROUNDS)
    window.wait_text(rounds.first, "http (on 127.0.0.1)", "removed worker")
    rounds.first.locator("summary").click()
    window.wait_text(rounds.first, "ticket 4711")
    _choose(window, "Reset offsets\N{HORIZONTAL ELLIPSIS}", "200 records will be read again")
    dialog.locator("select").nth(1).select_option("an offset")
    dialog.get_by_role("spinbutton").fill("210")
    window.wait_text(dialog, "10 will be skipped.", f"{TOPIC} 0 200 210 {RECORDS}")
    window.check()
    _confirm(window, "Reset", "1 offset set.")
    window.wait_text(window.section("Offsets").first, f"0 210 {RECORDS} 30")
    _choose(window, "Delete offsets\N{HORIZONTAL ELLIPSIS}", "1 offset will be deleted;")
    _confirm(window, "Delete", "1 offset deleted.")
    _choose(window, "Delete the group\N{HORIZONTAL ELLIPSIS}", "its 0 committed offsets will be")
    dialog.get_by_role("button", name="Delete").click()
    window.wait_text(window.find("main [role=status]"), f"group '{group}' does not exist")
    member.client.close()


def see_no_changes_where_they_are_disabled(window: Window, scene: Scene) -> None:
    """As a server without http.api.write answers."""
    window.answer_with(f"groups/{GROUP}", writes_enabled=False)
    find_no_changes(window)


def find_no_changes(window: Window) -> None:
    """Nothing that changes the group is offered."""
    window.open(ADDRESS)
    window.wait_text(window.section("Members"), "billing-a")
    window.wait_text(window.find(".facts"), "Stable")
    assert window.named("heading", "Changes").count() == 0
    assert window.named("button", "Remove members\N{HORIZONTAL ELLIPSIS}").count() == 0


def _choose(window: Window, change: str, *texts: str) -> None:
    button = window.named("button", change)
    assert window.until(lambda: button.count() == 1 and button.is_enabled()), change
    button.click()
    window.wait_text(window.find("dialog"), *texts)


def _confirm(window: Window, verb: str, text: str) -> None:
    button = window.find("dialog").get_by_role("button", name=verb, exact=True)
    assert window.until(button.is_enabled), verb
    button.click()
    window.wait_text(window.section("Changes"), text)


def use_the_keyboard_only(window: Window, scene: Scene) -> None:
    """Search, open, read, and go back to where one was."""
    window.open("/")
    window.wait_text(window.find(".found"), "groups")
    keys = window.page.keyboard
    keys.press("/")
    keys.type(GROUP)
    window.wait_text(window.find(".found"), "1 group fits.")
    _tab_to(window, f"a[href='#{ADDRESS}']")
    keys.press("Enter")
    window.wait_text(window.find(ROUNDS), "completed")
    _tab_to(window, ".rounds summary")
    keys.press("Enter")
    assert window.find(".rounds details[open]").count() == 1
    keys.press("Escape")
    window.wait_text(window.find(".found"), "1 group fits.")
    focused = window.find(f"a[href='#{ADDRESS}']:focus")
    assert window.until(lambda: focused.count() == 1), "the focus is lost"
    assert window.find("#search").input_value() == GROUP


def _tab_to(window: Window, what: str) -> None:
    for _ in range(40):
        window.page.keyboard.press("Tab")
        if window.find(f"{what}:focus").count():
            outline = window.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid", "the focus cannot be seen"
            return
    raise AssertionError(f"{what} is not reached with Tab")


def read_in_the_dark(window: Window, scene: Scene) -> None:
    """This window prefers dark colours; the contrast is among what is checked."""
    window.open("/")
    window.wait_text(window.find(".found"), "groups")
    ground = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground))) < 64, ground
    window.check()
    window.open(ADDRESS)
    window.wait_text(window.section("Ownership of partitions"), "Show as a table")
    window.wait_text(window.section("Lag in the last hour"), "records")
    window.check()
    if window.size == "phone":
        window.save(scene.images / "phone.png", 740)


def see_names_as_text(window: Window, scene: Scene) -> None:
    """A group, and a client in it, whose names are HTML."""
    window.open("/")
    window.named("link", HOSTILE).click()
    window.wait_text(window.find("h1"), HOSTILE)
    window.wait_text(window.find(ROUNDS), HOSTILE)
    window.wait_text(window.section("Members"), "<img src=x")
    assert window.find("img").count() == 0
    assert window.page.title().startswith(HOSTILE)
    window.check()


def ask_for_a_group_that_is_not_there(window: Window, scene: Scene) -> None:
    """The page says so, and has no other words than the server's."""
    window.open("/groups/no%20such%2Fgroup")
    window.wait_text(window.find("main [role=status]"), "group 'no such/group' does not exist")
    window.wait_text(window.section(EVENTS), "No rebalance of this group is stored.")
    window.check()


def read_a_group_without_rounds(window: Window, scene: Scene) -> None:
    """It has offsets only."""
    window.open("/groups/group-00042")
    window.wait_text(window.section(EVENTS), "No rebalance of this group is stored.")
    window.wait_text(window.section("Members"), "The group has no members.")
    window.wait_text(window.section("Ownership of partitions"), "No consumer assignment")
    window.wait_text(window.section("Offsets").first, "orders")
    window.check()


def lose_the_server(window: Window, scene: Scene) -> None:
    """It stops and comes back: the page says since when, keeps what it has, and goes on."""
    window.open(ADDRESS)
    window.wait_text(window.find(ROUNDS), "completed")
    window.wait_text(window.find("#live"), "Live")
    scene.end()
    trouble = window.find("#trouble")
    window.wait_text(trouble, "The server has not responded since", "Trying again in")
    window.wait_text(window.find(ROUNDS), "completed")
    window.check()
    with window.page.expect_request("**/healthz"):
        window.named("button", "Try now").click()
    scene.begin_again()
    # The page may have noticed that by itself, and have no button any more.
    window.page.evaluate("document.querySelector('#trouble button')?.click()")
    assert window.until(lambda: not trouble.inner_text()), "it is not noticed"
    window.wait_text(window.find("#live"), "Live")
    window.wait_text(window.find(".facts"), "billing-a")


JOURNEYS: Final[tuple[Journey, ...]] = (
    find_a_group,
    read_why,
    follow_a_round,
    see_who_is_missing,
    see_the_owners,
    see_the_lag,
    see_what_happened_without_a_rebalance,
    change_a_group,
    see_no_changes_where_they_are_disabled,
    use_the_keyboard_only,
    read_in_the_dark,
    see_names_as_text,
    ask_for_a_group_that_is_not_there,
    read_a_group_without_rounds,
    lose_the_server,  # the last one: members lose their connections
)
