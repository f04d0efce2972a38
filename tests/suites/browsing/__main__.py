"""Makes all journeys in windows of both sizes, and tells each as an event, which
`tests/suites/browser.py` reads. Its argument is a folder for the server's data.
"""

import json
import sys
import time
import traceback
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.suites.browser import MEASURED, PROGRAM
from tests.suites.browsing.journeys import IMAGES, JOURNEYS, Journey, read_in_the_dark
from tests.suites.browsing.scene import Scene
from tests.suites.browsing.window import SIZES, Window

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
            browser.close()
    finally:
        scene.close()
    for image in sorted(IMAGES.glob("*.png")):
        _told("images are small", image.stat().st_size <= IMAGE_BYTES, image.name)
        print(f"{MEASURED}{image.name}: {image.stat().st_size:,} bytes")


def _make(journey: Journey, size: str, browser: Browser, scene: Scene) -> None:
    name = f"{size}: {journey.__name__.replace('_', ' ')}"
    _say("run", name)
    began = time.monotonic()
    window = Window(browser, scene.url, size, is_dark=journey is read_in_the_dark)
    action = "pass"
    try:
        journey(window, scene)
    except Exception:  # noqa: BLE001  # whatever it is, the other journeys are made
        action = "fail"
        _say("output", name, Output=traceback.format_exc())
    window.close()
    _say(action, name, Elapsed=round(time.monotonic() - began, 2))


def _measure(browser: Browser, scene: Scene) -> None:
    """How heavy the page is, and how long it takes from the click to the rows."""
    window = Window(browser, scene.url, "desktop")
    window.open("/")
    window.wait_text(window.find(".found"), "groups")
    weight = sum(window.bytes_by_path.values())
    print(f"{MEASURED}page: {weight:,} bytes in {len(window.bytes_by_path)} files")
    _told("page weight", 0 < weight < MOST_BYTES, str(window.bytes_by_path))
    script = "performance.getEntriesByType('resource')"
    script += ".filter(e => e.name.includes('/api/v1/groups')).map(e => e.duration)"
    times = []
    for _ in range(5):
        window.page.reload()
        window.wait_text(window.find(".found"), "groups")
        times += window.page.evaluate(script)
    print(f"{MEASURED}answer with 50 of 10,003 groups: {sorted(times)[len(times) // 2]:.0f} ms")
    window.close()


def _told(name: str, is_so: bool, detail: str) -> None:
    _say("run", f"{name}: {detail}" if not is_so else name)
    _say("pass" if is_so else "fail", f"{name}: {detail}" if not is_so else name)


def _say(action: str, name: str, **more: object) -> None:
    print(json.dumps({"Action": action, "Test": name, **more}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
