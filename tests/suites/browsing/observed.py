"""Makes journeys on the page of `groupkeeper observe`, beside a server that members use: those that
are the same on both, and what only an observer shows. Its argument is a folder for the data and
for screenshots.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.suites.browsing import journeys
from tests.suites.browsing.journeys import ADDRESS, ROUNDS
from tests.suites.browsing.making import chromium, make
from tests.suites.browsing.scene import GROUP, PARTITIONS, TOPIC, Scene, rebalance
from tests.suites.browsing.window import SIZES, Window
from tests.suites.checks import wait_for
from tests.support import consumer
from tests.support.observing import Observing, observing
from tests.support.wire import Client, connect

CROWD: Final = 120
"""Groups that are Empty: three pages of the list."""
BACK_S: Final = 30.0
"""A pause of the observer, an update of the page, and a margin."""
QUIET: Final = "No rebalance is in progress."


class Observed(Scene):
    """An observer whose page is shown, and the server and members of `Scene` beside it. Groups
    that have offsets only are none to an observer: no record tells of them.
    """

    groups: ClassVar = CROWD + 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.images = folder
        self._data = folder / "observed"
        self._running = ExitStack()
        self._http = "127.0.0.1:0"
        self._observer: Observing | None = None

    def start(self) -> None:
        super().start()
        self.begin_again()
        assert self._observer is not None
        self._observer.asked()
        places = f"/api/v1/groups/{GROUP}/lag"
        wait_for(lambda: self._has_ends(places), "the observer knows the ends of the topic")

    def _has_ends(self, path: str) -> bool:
        assert self._observer is not None
        return len(self._observer.get(path)["partitions"]) == PARTITIONS

    def close(self) -> None:
        self.end()
        super().close()

    def end(self) -> None:
        self._running.close()

    def begin_again(self) -> None:
        where = ("--http", self._http)
        running = observing(self.server.bootstrap, self._data, *where)
        self._observer = self._running.enter_context(running)
        self._observer.caught_up()
        self._http = self._observer.http

    @property
    def url(self) -> str:
        return f"http://{self._http}/"

    def delete(self, group: str) -> None:
        """Delete an Empty group on the server."""
        with connect(self.server.kafka) as client:
            [result] = client.call(2, DeleteGroupsRequest(groups_names=[group])).results
            assert result.error_code == ErrorCode.NONE, result

    def _crowd(self, client: Client) -> None:
        for number in range(CROWD):
            member = consumer.Member(client, f"group-{number:05}")
            member.settle()
            member.leave()


def see_that_it_observes(window: Window, scene: Observed) -> None:
    """The list says what is observed, and how sure each cause is."""
    window.open("/")
    window.wait_text(
        window.find("#observing"), f"Observes the cluster at {scene.server.bootstrap}, read-only."
    )
    cause = window.get(f"groups/{GROUP}")["last_cause"]
    assert cause["source"] == "log", cause
    row = window.find(f"tr[data-key={GROUP}]")
    window.wait_text(row, f"Inferred, {_percent(cause['confidence'])}: billing-", "Stable")
    window.check()


def read_why_it_is_thought(window: Window, scene: Observed) -> None:
    """The paragraph is the observer's, and says how sure it is; heartbeats are not observed."""
    found = journeys.read_the_last_round(window, "Inferred, ", "joined.", "completed")
    assert found["source"] == "log", found
    sure = _percent(found["confidence"])
    paragraph = window.find(f"{ROUNDS} .paragraph").first
    window.wait_text(paragraph, f"Inferred, {sure}: ")
    window.wait_text(window.find(f"{ROUNDS} .when").first, "UTC")
    window.wait_text(window.section("Members"), "billing-a", "not observed")


def follow_a_round_beside(window: Window, scene: Observed) -> None:
    """Without touching the page: a member joins the group on the server, the others follow, it is
    over; it leaves.
    """
    window.open(ADDRESS)
    now, rounds = window.find(".barrier"), window.find(ROUNDS)
    window.wait_text(now, QUIET)
    window.wait_text(rounds, "completed")
    new = scene.member("billing-new")
    new.ask()
    try:
        window.wait_text(now, "Join phase: first seen", "ago, by asking the coordinator.")
        window.wait_text(now, "Who has rejoined is not known.", "New: billing-new-")
        window.check()
    finally:
        rebalance([*scene.consumers, new])
    window.wait_text(now, QUIET)
    window.wait_text(rounds, "Inferred, ", "billing-new", "joined", CauseCode.MEMBER_JOINED)
    window.wait_text(window.section("Members"), "billing-new")
    places = {(TOPIC, each): 40 * each for each in range(PARTITIONS)}
    assert new.committed(places) == {0}
    new.leave()
    rebalance(scene.consumers)
    window.wait_text(rounds, "Inferred, ", "billing-new", "left", CauseCode.MEMBER_LEFT)
    window.wait_text(now, QUIET)
    window.check()


def see_a_new_group(window: Window, scene: Observed) -> None:
    """It comes into the list by itself, and goes again when it is deleted."""
    group = f"arrived-{window.size}"
    window.open("/")
    window.find("#search").fill("arrived-")
    window.wait_text(window.find(".found"), "No group matches.")
    member = scene.member("worker", group)
    member.settle()
    window.wait_text(window.find(f"tr[data-key={group}]"), "Stable", "worker", "joined")
    member.leave()
    window.wait_text(window.find(f"tr[data-key={group}]"), "Empty", "left")
    scene.delete(group)
    window.wait_text(window.find(".found"), "No group matches.")


def see_the_lag_without_time(window: Window, scene: Observed) -> None:
    """In records only: an observer does not read the records of the topic."""
    journeys.look_at_the_lag(window, "records now.")


def find_no_changes(window: Window, scene: Observed) -> None:
    journeys.find_no_changes(window)


def lose_the_cluster(window: Window, scene: Observed) -> None:
    """It stops and comes back: the page says since when it cannot be read, and goes on."""
    window.open(ADDRESS)
    window.wait_text(window.find(ROUNDS), "completed")
    trouble = window.find("#trouble")
    assert not trouble.inner_text()
    scene.server.stop()
    told = window.wait_text(trouble, "The cluster cannot be read since", "8 partitions of")
    window.wait_text(window.find(".facts"), "billing-a")
    window.check()
    scene.server.start()
    assert window.until(lambda: not trouble.inner_text(), BACK_S), told


def _percent(confidence: float) -> str:
    return f"{round(confidence * 100)} %"


JOURNEYS: Final[tuple[Callable[[Window, Observed], None], ...]] = (
    journeys.find_a_group,
    see_that_it_observes,
    read_why_it_is_thought,
    follow_a_round_beside,
    see_a_new_group,
    journeys.see_the_owners,
    see_the_lag_without_time,
    find_no_changes,
    journeys.use_the_keyboard_only,
    journeys.read_in_the_dark,
    journeys.see_names_as_text,
    journeys.ask_for_a_group_that_is_not_there,
    journeys.lose_the_server,
    lose_the_cluster,  # the last one: members lose their connections
)


def main(folder: str) -> None:
    scene = Observed(Path(folder))
    try:
        scene.start()
        with chromium() as browser:
            for journey in JOURNEYS:
                for size in SIZES:
                    make(journey, size, browser, scene.url, scene)
    finally:
        scene.close()


if __name__ == "__main__":
    main(sys.argv[1])
