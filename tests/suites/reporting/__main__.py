"""Writes reports, makes all journeys through the small one in windows of both sizes, takes pictures
of one of generated days, and measures the one of a thousand groups. Tells each as an event, which
`tests/suites/browser.py` reads. Its argument is a folder for the reports.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser

from groupkeeper.analytics.page import write_report
from tests.analytics.page_sample import about, tables
from tests.suites.browser import MEASURED
from tests.suites.browsing.making import chromium, make
from tests.suites.browsing.scene import IMAGES
from tests.suites.browsing.window import SIZES, Window
from tests.suites.checks import tell
from tests.suites.reporting.looks import JOURNEYS, SHORT
from tests.suites.reporting.pictures import make_sample, take

GROUPS = 1_000
OPEN_MS = 2_000
FRAME_MS = 500
"""The longest that a frame may take: a person notices it, and does not wait."""
IMAGE_BYTES = 100 * 1024
_LISTEN = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ type: "longtask", buffered: true });
"""
_OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_SCROLL = """async () => {
  let longest = 0, last = performance.now();
  for (let y = 0; y < document.documentElement.scrollHeight; y += 400) {
    scrollTo({ top: y, behavior: "instant" });
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}"""
_TIMED = """async () => {
  const began = performance.now();
  %s
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - began;
}"""
_SORT = _TIMED % "document.querySelector('#groups-table th button').click();"


def main(folder: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    small, short, large = (folder / f"{name}.html" for name in ("report", "short", "large"))
    write_report(small, tables(), about())
    write_report(short, tables(2, 1), about(damage=["7 bytes are no batch"]))
    write_report(large, tables(GROUPS), about())
    sample = folder / "sample.html"
    tell("a report of two days of forty groups", lambda: make_sample(folder / "weeks", sample))
    with chromium() as browser:
        for journey in JOURNEYS:
            for size in SIZES:
                shown = short if journey in SHORT else small
                make(journey, size, browser, shown.as_uri())
        tell("its pictures", lambda: _take_pictures(browser, sample))
        tell("without a script", lambda: _without_script(browser, small))
        tell(f"{GROUPS:,} groups", lambda: _measure(browser, large))
    for image in sorted(IMAGES.glob("report*.jpg")):
        size_of = image.stat().st_size
        tell(f"{image.name} is small", lambda of=size_of: _at_most("bytes", of, IMAGE_BYTES))


def _take_pictures(browser: Browser, sample: Path) -> None:
    window = Window(browser, sample.as_uri(), "desktop")
    take(window)
    window.check()
    window.close()


def _without_script(browser: Browser, path: Path) -> None:
    """Findings and all numbers are there, and a line where a picture is missing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator(".finding:visible").count() == 8
    page.locator(".group-panel summary").nth(1).click()
    assert page.locator("#group-2-owners .name:visible").count() > 5
    assert "needs a script" in page.locator("#group-2-owners noscript").inner_text()
    assert "payments" in page.locator("#timeline").inner_text()
    context.close()


def _measure(browser: Browser, path: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(_LISTEN)
    page.goto(path.as_uri())
    print(f"{MEASURED}report of {GROUPS:,} groups: {path.stat().st_size:,} bytes")
    _told_ms("opened", page.evaluate(_OPENED), OPEN_MS)
    _told_ms("longest frame while scrolling", page.evaluate(_SCROLL), FRAME_MS)
    _told_ms("a table of them sorted", page.evaluate(_SORT), OPEN_MS)
    _told_ms("longest task of all", page.evaluate("longest"), OPEN_MS)
    context.close()


def _told_ms(what: str, ms: float, most: float) -> None:
    print(f"{MEASURED}{what}: {ms:.0f} ms")
    _at_most(what, ms, most)


def _at_most(what: str, value: float, most: float) -> None:
    assert value <= most, f"{what}: {value:.0f}, and {most} is the most"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
