"""Makes all journeys in windows of both sizes, and tells each as an event, which
`tests/suites/browser.py` reads. Its argument is a folder for the server's data.
"""

import sys
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser

from tests.suites.browser import MEASURED
from tests.suites.browsing import tokens
from tests.suites.browsing.journeys import JOURNEYS
from tests.suites.browsing.making import chromium, make
from tests.suites.browsing.scene import IMAGES, Scene
from tests.suites.browsing.window import SIZES, Window
from tests.suites.checks import tell

MOST_BYTES = 150 * 1024
IMAGE_BYTES = 100 * 1024


def main(folder: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    scene = Scene(Path(folder))
    try:
        scene.start()
        with chromium() as browser:
            _measure(browser, scene)
            for journey in JOURNEYS:
                for size in SIZES:
                    make(journey, size, browser, scene.url, scene)
            with tokens.Guarded(Path(folder) / "guarded") as guarded:
                for each in tokens.JOURNEYS:
                    for size in SIZES:
                        make(each, size, browser, guarded.url, guarded)
    finally:
        scene.close()
    for image in sorted(IMAGES.glob("*.png")):
        tell(f"{image.name} is small", partial(_check_size, image.stat().st_size, IMAGE_BYTES))
        print(f"{MEASURED}{image.name}: {image.stat().st_size:,} bytes")


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
