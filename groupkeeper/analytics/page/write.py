"""Writes the report as a whole: a reader sees the old page or the new one."""

import os
from pathlib import Path
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError, EngineFailed
from groupkeeper.analytics.page.about import About
from groupkeeper.analytics.page.data import Tables
from groupkeeper.analytics.page.document import OURS
from groupkeeper.analytics.page.report import render

_START: Final = 1024


def check_report(path: Path, made: Path | None = None) -> Path:
    """Where a report for `path` is written, past symbolic links. AnalyticsError, in one line, if it
    cannot be: to be asked before the work of an analysis, which makes the folder `made`, and those
    above it.
    """
    try:
        target = path.resolve()
        if target.is_dir():
            raise AnalyticsError(f"{path} is a folder: give --report the name of a file in it")
        if target.exists() and not target.is_file():
            raise AnalyticsError(f"{path} is no ordinary file: write the report elsewhere")
        if target.exists() and not _is_report(target):
            raise AnalyticsError(f"{path} exists and is no report: name another file")
        if made and not target.parent.exists() and made.resolve().is_relative_to(target.parent):
            return target
        if not target.parent.is_dir():
            raise AnalyticsError(f"{path.parent} is no folder: create it, or write elsewhere")
        if not os.access(target.parent, os.W_OK):
            raise AnalyticsError(f"{path.parent} cannot be written to: write the report elsewhere")
    except OSError as error:
        raise AnalyticsError(f"the report cannot be written: {error.strerror}") from error
    return target


def _is_report(path: Path) -> bool:
    """Whether it may be replaced: a report, or a file with nothing in it."""
    with path.open("rb") as file:
        start = file.read(_START)
    return not start or OURS.encode() in start


def write_report(path: Path, tables: Tables, about: About) -> None:
    """Render, and replace what is at `path`. AnalyticsError, in one line, if that fails."""
    target = check_report(path)
    page = render(tables, about)
    attempt = target.with_name(f".{target.name[:64]}.{os.getpid()}")
    try:
        attempt.write_text(page, encoding="utf-8")
        attempt.replace(target)
    except OSError as error:
        attempt.unlink(missing_ok=True)
        raise EngineFailed(f"the report {path} was not written: {error.strerror}") from error
