"""A server whose HTTP port takes tokens, and what people do with the page's form for one. Tokens
are made and removed with `groupkeeper tokens`, as operators do.
"""

import contextlib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from tests.suites.browsing.journeys import ADDRESS
from tests.suites.browsing.scene import GROUP, TOPIC, Member
from tests.suites.browsing.window import Window
from tests.suites.checks import wait_for
from tests.suites.process import call
from tests.support.process import PROGRAM, ROOT, Server
from tests.support.requests import create_request
from tests.support.wire import connect

REMOVED_S: Final = 40.0
"""Longer than a token is taken after its removal: the file is looked at every 5 s, and a stream
ends with its next event, or its heartbeat after 15 s.
"""
FORM: Final = "form:has(#token-field)"
ASKS: Final = "This server asks for a token."
REFUSES: Final = "The server does not take the token."
CHANGE: Final = "Remove members\N{HORIZONTAL ELLIPSIS}"


class Guarded:
    """The server, with a group. Leaving the `with` block ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._tokens = folder / "tokens"
        self.reader, self.writer = self.add("reader"), self.add("writer", "write")
        settings = {
            "http.tokens.file": str(self._tokens),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
        }
        self._server = Server(folder, settings)

    def __enter__(self) -> Self:
        self._server.start()
        with connect(self._server.kafka) as client:
            client.call(4, create_request(TOPIC))
        self._member = Member(self._server.kafka, "billing-a")
        self._member.settle()
        return self

    def __exit__(self, *_: object) -> None:
        self._member.client.close()
        self._server.stop()

    @property
    def url(self) -> str:
        return f"http://{self._server.http}/"

    def add(self, name: str, role: str = "read") -> str:
        """A new token of this name: what is printed first."""
        return self._groupkeeper("add", name, "--role", role).partition("\n")[0]

    def add_and_wait(self, name: str) -> str:
        """A new token that the server takes already: the page does not ask again by itself."""
        token = self.add(name)
        wait_for(lambda: self._takes(token), "the server takes a new token")
        return token

    def _takes(self, token: str) -> bool:
        headers = {"Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(f"{self.url}api/v1/groups", headers=headers)
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(asked, timeout=20):
            return True
        return False

    def remove(self, name: str) -> None:
        self._groupkeeper("remove", name)

    def _groupkeeper(self, *words: str) -> str:
        command = [*PROGRAM, "tokens", *words, "--file", str(self._tokens)]
        return call(command, self._folder, {"PYTHONPATH": str(ROOT)})


def _give(window: Window, token: str) -> None:
    window.find("#token-field").fill(token)
    window.named("button", "Use it").click()


def give_a_token(window: Window, guarded: Guarded) -> None:
    """It is asked for, kept in the tab, in no address, and forgotten when one says so."""
    window.open("/")
    form = window.find(FORM)
    window.wait_text(form, ASKS, "It is kept in this tab until you close it.")
    assert window.named("button", "Forget the token").count() == 0
    window.check()
    _give(window, "two words")
    window.wait_text(form, "No token has spaces or letters with accents.")
    _give(window, "gk_of-nobody")
    window.wait_text(form, REFUSES)
    window.check()
    _give(window, guarded.reader)
    window.wait_text(window.find(".found"), "1 group")
    assert form.count() == 0
    window.check()
    window.page.reload()
    window.wait_text(window.find(".found"), "1 group")
    assert form.count() == 0, "it is asked for again after a reload"
    assert guarded.reader not in window.page.url
    other_tab = window.page.context.new_page()
    other_tab.goto(window.page.url)
    window.wait_text(other_tab.locator(FORM), ASKS)
    other_tab.close()
    window.named("button", "Forget the token").click()
    window.wait_text(form, ASKS)
    assert window.page.evaluate("sessionStorage.length") == 0


def see_what_the_role_allows(window: Window, guarded: Guarded) -> None:
    """Changes are offered with a token for them, and not with another one."""
    window.open(ADDRESS)
    window.wait_text(window.find(FORM), ASKS)
    _give(window, guarded.reader)
    window.wait_text(window.section("Members"), "billing-a")
    window.wait_text(window.find("#live"), "Live")
    assert window.named("button", CHANGE).count() == 0
    window.named("button", "Forget the token").click()
    window.wait_text(window.find(FORM), ASKS)
    _give(window, guarded.writer)
    window.wait_text(window.section("Changes"), CHANGE)


def lose_the_token(window: Window, guarded: Guarded) -> None:
    """It is removed while a stream is open: the stream ends, and the form comes back."""
    name = f"visitor-{window.size}"
    token = guarded.add_and_wait(name)
    window.open(ADDRESS)
    form, live = window.find(FORM), window.find("#live")
    window.wait_text(form, ASKS)
    _give(window, token)
    window.wait_text(live, "Live")
    guarded.remove(name)
    assert window.until(lambda: form.count() == 1, REMOVED_S), "it still lets in"
    window.wait_text(form, REFUSES)
    assert live.inner_text() != "Live"
    window.wait_text(window.find("h1"), GROUP)
    _give(window, guarded.reader)
    window.wait_text(live, "Live")
    assert form.count() == 0


JOURNEYS: Final[tuple[Callable[[Window, Guarded], None], ...]] = (
    give_a_token,
    see_what_the_role_allows,
    lose_the_token,
)
