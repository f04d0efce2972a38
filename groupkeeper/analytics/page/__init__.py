"""The report of an analysis as one HTML page, which loads nothing and needs no script."""

from groupkeeper.analytics.page.about import About, Described
from groupkeeper.analytics.page.render import render
from groupkeeper.analytics.page.write import check_report, write_report

__all__ = ["About", "Described", "check_report", "render", "write_report"]
