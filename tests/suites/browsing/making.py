"""The browser, and journeys in windows of it. Each is told as an event, which
`tests/suites/browser.py` reads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.suites.browser import PROGRAM
from tests.suites.browsing.window import Window
from tests.suites.checks import tell

DARK: Final = "read_in_the_dark"
"""Name of journeys in a window that prefers dark colours."""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # as root, Chromium has no sandbox
        browser = playwright.chromium.launch(
            executable_path=f"/usr/bin/{PROGRAM}", args=["--no-sandbox", "--disable-lcd-text"]
        )
        yield browser
        browser.close()


def make(
    journey: Callable[..., None], size: str, browser: Browser, url: str, *about: object
) -> None:
    """Make a journey in a new window, which is its first argument; `about` are the others."""
    window = Window(browser, url, size, is_dark=journey.__name__ == DARK)
    tell(f"{size}: {journey.__name__.replace('_', ' ')}", lambda: journey(window, *about))
    window.close()
