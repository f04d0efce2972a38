"""The report of an analysis: one HTML page that loads nothing."""

from groupkeeper.analytics.page.read import ReportHeader
from groupkeeper.analytics.page.report import check_report, render, write_report

__all__ = ["ReportHeader", "check_report", "render", "write_report"]
