"""The report of an analysis as one HTML page, which loads nothing."""

from groupkeeper.analytics.page.about import About, Described
from groupkeeper.analytics.page.report import render
from groupkeeper.analytics.page.write import check_report, write_report

__all__ = ["About", "Described", "check_report", "render", "write_report"]
