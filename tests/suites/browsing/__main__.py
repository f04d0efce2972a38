"""Makes all journeys in windows of both sizes, and tells each as an event, which
`tests/suites/browser.py` reads. Its argument is a folder for the server's data.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Browser, sync_playwright

from tests.suites.browser import MEASURED, PROGRAM
from tests.suites.browsing import tokens
from tests.suites.browsing.journeys import IMAGES, JOURNEYS, read_in_the_dark
from tests.suites.browsing.scene import Scene
from tests.suites.browsing.window import SIZES, Window
from tests.suites.checks import tell

Shown = TypeVar("Shown", Scene, tokens.Guarded)

MOST_BYTES = 150 * 1024
IMAGE_BYTES = 100 * 1024


def main(folder: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    scene = Scene(Path(folder))
    try:
        scene.start()
        with sync_playwright() as playwright:
            # as root, Chromium has no sandbox
            browser = playwright.chromium.launch(
                executable_path=f"/usr/bin/{PROGRAM}", args=["--no-sandbox", "--disable-lcd-text"]
            )
            _measure(browser, scene)
            for journey in JOURNEYS:
                for size in SIZES:
                    _make(journey, size, browser, scene)
            with tokens.Guarded(Path(folder) / "guarded") as guarded:
                for each in tokens.JOURNEYS:
                    for size in SIZES:
                        _make(each, size, browser, guarded)
            browser.close()
    finally:
        scene.close()
    for image in sorted(IMAGES.glob("*.png")):
        tell(f"{image.name} is small", partial(_check_size, image.stat().st_size, IMAGE_BYTES))
        print(f"{MEASURED}{image.name}: {image.stat().st_size:,} bytes")


def _make(
    journey: Callable[[Window, Shown], None], size: str, browser: Browser, scene: Shown
) -> None:
    is_dark = journey.__name__ == read_in_the_dark.__name__
    window = Window(browser, scene.url, size, is_dark=is_dark)
    tell(f"{size}: {journey.__name__.replace('_', ' ')}", lambda: journey(window, scene))
    window.close()


def _measure(browser: Browser, scene: Scene) -> None:
    """How heavy the page is, and how long it takes from the click to the rows."""
    window = Window(browser, scene.url, "desktop")
    window.open("/")
    window.wait_text(window.find(".found"), "groups")
    weight = sum(window.bytes_by_path.values())
    print(f"{MEASURED}page: {weight:,} bytes in {len(window.bytes_by_path)} files")
    tell("page weight", lambda: _check_size(weight, MOST_BYTES))
    script = "performance.getEntriesByType('resource')"
    script += ".filter(e => e.name.includes('/api/v1/groups')).map(e => e.duration)"
    times = []
    for _ in range(5):
        window.page.reload()
        window.wait_text(window.find(".found"), "groups")
        times += window.page.evaluate(script)
    print(f"{MEASURED}answer with 50 of 10,003 groups: {sorted(times)[len(times) // 2]:.0f} ms")
    window.close()


def _check_size(size: int, most: int) -> None:
    assert 0 < size <= most, f"{size:,} bytes, and {most:,} are the most"


if __name__ == "__main__":
    main(sys.argv[1])
