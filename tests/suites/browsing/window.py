"""A browser window with the page: what a person sees and does, and what must never happen."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route

WAIT_S: Final = 15.0
SIZES: Final = {"desktop": (1280, 800), "phone": (360, 740)}
IMAGE_WIDTH: Final = 1024
IMAGE_QUALITY: Final = 60
"""Of `.jpg`: pictures with patterns are several times larger as `.png`."""
_POLL_S: Final = 0.05
_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_FORBIDDEN: Final = re.compile("Content Security Policy|Trusted|Uncaught")


class Window:
    """One window, without a past."""

    def __init__(self, browser: Browser, url: str, size: str, *, is_dark: bool = False) -> None:
        width, height = SIZES[size]
        self.size = size
        self._url = url
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if is_dark else "light",
            has_touch=size == "phone",
            reduced_motion="reduce",
        )
        self.page: Page = self._context.new_page()
        self._wrong: list[str] = []
        self.bytes_by_path: dict[str, int] = {}
        self.page.on("pageerror", lambda error: self._wrong.append(str(error)))
        self.page.on("console", lambda message: self._heard(message.text))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("response", self._answered)

    def close(self) -> None:
        self._context.close()

    # -- looking ---------------------------------------------------------------------------------

    def open(self, address: str = "") -> None:
        """Load the page at an address behind its `#`."""
        self.page.goto(f"{self._url}#{address}")

    def find(self, what: str) -> Locator:
        """By a selector of CSS."""
        return self.page.locator(what)

    def named(self, role: Any, name: str) -> Locator:
        """By what a screen reader says. Any: one of Playwright's roles."""
        return self.page.get_by_role(role, name=name, exact=True)

    def section(self, title: str) -> Locator:
        return self.named("region", title)

    def wait_text(self, what: Locator, *texts: str) -> str:
        """Until it has all of them; what it says then."""
        said = ""

        def has_all() -> bool:
            nonlocal said
            said = " ".join(what.first.inner_text().split()) if what.count() else "(not there)"
            return all(each in said for each in texts)

        assert self.until(has_all), f"{texts} is not in: {said[:500]}"
        return said

    def until(self, is_so: Callable[[], bool], seconds: float = WAIT_S) -> bool:
        """Whether it is so within this time."""
        end = time.monotonic() + seconds
        while not (now := is_so()) and time.monotonic() < end:
            self.page.wait_for_timeout(_POLL_S * 1000)
        return now

    def get(self, path: str) -> Any:
        """JSON of the API."""
        return self._context.request.get(f"{self._url}api/v1/{path}").json()

    def answer_with(self, path: str, **fields: Any) -> None:
        """Change fields of the API's answers for a path. Any: JSON."""

        def answer(route: Route) -> None:
            response = route.fetch()
            route.fulfill(response=response, json=response.json() | fields)

        self.page.route(f"**/api/v1/{path}", answer)

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        """No rule of accessibility is broken, nothing is cut off at the side, nothing failed."""
        found = Axe().run(self.page, options={"runOnly": _RULES}).response["violations"]
        told = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]
        assert not told, "not accessible:\n" + "\n".join(told)
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} pixels wider than the window"
        assert not self._wrong, "\n".join(self._wrong)

    def save(self, file: Path, height: int, top: Locator | None = None) -> None:
        """A screenshot from `top` on: narrower than a desktop is, so that it stays small."""
        before = SIZES[self.size]
        width = min(before[0], IMAGE_WIDTH)
        self.page.set_viewport_size({"width": width, "height": height})
        if top is not None:
            top.evaluate("each => each.scrollIntoView()")
        quality = IMAGE_QUALITY if file.suffix == ".jpg" else None
        self.page.screenshot(path=file, animations="disabled", quality=quality)
        self.page.set_viewport_size({"width": before[0], "height": before[1]})

    def _heard(self, text: str) -> None:
        if _FORBIDDEN.search(text):
            self._wrong.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith(self._url):
            self._wrong.append(f"asked another server: {url}")

    def _answered(self, response: Any) -> None:
        path = response.url.removeprefix(self._url).partition("?")[0]
        length = response.headers.get("content-length")
        if length is not None and not path.startswith("api/"):
            self.bytes_by_path[path] = int(length)
