"""The report of an analysis in a real browser: on a desktop, on a phone and on paper, and of a
thousand groups. The journeys are in `reporting/`.
"""

from typing import ClassVar

from tests.suites.browser import Browser


class Report(Browser):
    """Needs no server: the report is a file."""

    name = "report"
    about = "the report of an analysis in Chromium: looks, accessibility, paper, a thousand groups"
    program: ClassVar = "tests.suites.reporting"
