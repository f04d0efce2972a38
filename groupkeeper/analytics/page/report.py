"""Builds the report page: its sections, their order, and the text for empty ones.

The page is one file that loads nothing. Its style and the drawing module are shared with the
server's page (`groupkeeper/web/page`). Its policy allows only its own style and script, by their
digests.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from groupkeeper.analytics.errors import AnalyticsError, EngineFailed
from groupkeeper.analytics.page.data import Data, PageTables
from groupkeeper.analytics.page.findings import findings_of, findings_part
from groupkeeper.analytics.page.markup import Child, Figure, Html, fill, joined
from groupkeeper.analytics.page.overview import not_stable, rate, timeline
from groupkeeper.analytics.page.panels import Panels
from groupkeeper.analytics.page.read import ReportHeader, summary, what_was_read
from groupkeeper.analytics.page.tables import groups_part, tables_part
from groupkeeper.analytics.page.times import count, period
from groupkeeper.analytics.page.what_if import what_if

PAGE_BYTES: Final = 1_000_000
"""Limit of the whole page: browsers open it quickly, and mail accepts it."""
REST_BYTES: Final = 100_000
"""Reserved for style, script, and markup around the rows of tables."""
NO_ROUNDS: Final = "No rebalances: the table `rounds` is missing or empty."
NO_FINDINGS: Final = "No findings: the table `findings` was not made."
NO_PANELS: Final = (
    "No pictures of single groups: the tables `ownership`, `commit_minutes` and `lag` have no rows "
    "of these groups."
)
NO_TABLES: Final = "The analysis made no tables."
NO_TIME: Final = "No rebalance has a duration (table `rounds`)."
NO_WHAT_IF: Final = "Nothing was replayed with other settings (table `what_if`)."


def render(tables: PageTables, about: ReportHeader) -> str:
    """Return the page as HTML. A section whose table is missing or empty is a line of text."""
    data = Data(tables, about.made)
    findings = findings_of(data)
    panels = Panels(data, findings)
    link = panels.link
    told = findings_part(findings, data.shown, link) if "findings" in tables else None
    over_time = [rate(data, findings), timeline(data, link)] if len(data.groups) else []
    cost = [each for each in [not_stable(data, link)] if each]
    replayed = what_if(data)
    drawn = [*over_time, *cost, *replayed, *panels.figures]
    parts = [
        ("findings", "Findings", told, NO_FINDINGS),
        ("read", "What was read", what_was_read(data, about), ""),
        ("time", "Over time", _figures(over_time), NO_ROUNDS),
        ("groups", "Group by group", panels.html(), NO_PANELS),
        ("cost", "What it cost, and why", _figures(cost), NO_TIME),
        ("what-if", "What if", _figures(replayed), NO_WHAT_IF),
        ("all", "All groups", groups_part(data, link), NO_ROUNDS),
    ]
    used = sum(len((content or "").encode()) for _, _, content, _ in parts) + len(embedded(drawn))
    room = max(PAGE_BYTES - REST_BYTES - used, 0)
    parts.append(("tables", "All tables", tables_part(data, about, room), NO_TABLES))
    foot = (
        f"Made by Groupkeeper {about.version}, {about.made:%Y-%m-%d %H:%M} UTC. All times are UTC."
    )
    title = "No rebalance has a usable time" if data.has("rounds") else "No group was read"
    if len(data.groups):
        title = f"What happened to {count(len(data.groups), 'group')}, {period(data.shown)}"
    return document(title, summary(data, about, findings), parts, drawn, foot)


def _figures(figures: Sequence[Figure]) -> Html | None:
    return joined(each.html() for each in figures) or None


def check_report(path: Path, made: Path | None = None) -> Path:
    """Return `path` with symbolic links resolved, if a report can be written there. Raises
    AnalyticsError, with one line, otherwise. `made`: a folder that an analysis creates, with its
    parents, before the report is written.
    """
    try:
        target = path.resolve()
        if target.is_dir():
            raise AnalyticsError(f"{path} is a folder: give --report the name of a file in it")
        if target.exists() and not target.is_file():
            raise AnalyticsError(f"{path} is not a regular file: write the report elsewhere")
        if target.exists() and not _is_report(target):
            raise AnalyticsError(f"{path} exists and is not a report: name another file")
        if made and not target.parent.exists() and made.resolve().is_relative_to(target.parent):
            return target
        if not target.parent.is_dir():
            raise AnalyticsError(f"{path.parent} is not a folder: create it, or write elsewhere")
        if not os.access(target.parent, os.W_OK):
            raise AnalyticsError(f"{path.parent} cannot be written to: write the report elsewhere")
    except OSError as error:
        raise AnalyticsError(f"the report cannot be written: {error.strerror}") from error
    return target


def _is_report(path: Path) -> bool:
    """Return whether the file may be replaced: a report, or an empty file."""
    with path.open("rb") as file:
        start = file.read(1024)
    return not start or OURS.encode() in start


def write_report(path: Path, tables: PageTables, about: ReportHeader) -> None:
    """Render the report and replace `path`. Raises AnalyticsError, with one line, on failure."""
    target = check_report(path)
    page = render(tables, about)
    attempt = target.with_name(f".{target.name[:64]}.{os.getpid()}")
    try:
        attempt.write_text(page, encoding="utf-8")
        attempt.replace(target)
    except OSError as error:
        attempt.unlink(missing_ok=True)
        raise EngineFailed(f"the report {path} was not written: {error.strerror}") from error


STYLES: Final = ("web/page/page.css", "analytics/page/report.css")
SCRIPTS: Final = ("web/page/dom.js", "web/page/lanes.js", "analytics/page/report.js")
"""Ordered so that each imports only from earlier ones."""
OURS: Final = '<meta name="generator" content="groupkeeper">'
"""Near the start of each page; files without it are not replaced."""
_Part = tuple[str, str, Html | None, str]
"""A section: name, title, content, and the text if it is empty."""
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{OURS}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{{}}'; \
script-src '{{}}'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
trusted-types 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>{{}}</title><style>{{}}</style></head><body><a href="#main" class="skip">To the findings</a>
<header><p class="name">Groupkeeper</p><h1>{{}}</h1>{{}}</header>
<nav class="contents" aria-label="Contents"><ul>{{}}</ul></nav>
<main id="main" tabindex="-1">{{}}</main><footer>{{}}</footer>
<script type="application/json" id="pictures">{{}}</script><script>{{}}</script></body></html>
"""
_SECTION: Final = '<section id="{}" aria-labelledby="{}-head"><h2 id="{}-head">{}</h2>{}</section>'


def document(
    title: str, summary: Child, parts: Sequence[_Part], figures: Sequence[Figure], foot: Child
) -> str:
    """Return the page. Empty sections show their text, and are not in the table of contents."""
    style, code = Html("".join(map(_read, STYLES))), script()
    links = [fill('<li><a href="#{}">{}</a></li>', *each[:2]) for each in parts if each[2]]
    sections = [
        fill(
            _SECTION, name, name, name, head, content or fill('<p class="missing">{}</p>', missing)
        )
        for name, head, content, missing in parts
    ]
    head = _digest(style), _digest(code), title, style, title, summary
    return fill(_PAGE, *head, links, sections, foot, embedded(figures), code)


def embedded(figures: Sequence[Figure]) -> Html:
    """Return the data of figures by name, as JSON that cannot close its element."""
    told = json.dumps({each.name: each.data for each in figures}, separators=(",", ":"))
    return Html(told.replace("<", "\\u003c"))


def script() -> Html:
    """Return the modules as one script. Each is wrapped in a function that returns its exports."""
    made = ['"use strict";\nconst modules = {};\n']
    for path in SCRIPTS:
        code, name = _read(path), path.rpartition("/")[2]
        exports = re.findall(r"^export (?:class|const|function) (\w+)", code, re.MULTILINE)
        code = re.sub(r"^export ", "", code, flags=re.MULTILINE)
        required = r'const \1 = modules["\2"];'
        code = re.sub(r'^import (.*) from "./(.*)";', required, code, flags=re.MULTILINE)
        made.append(
            f'modules["{name}"] = (() => {{\n{code}return {{ {", ".join(exports)} }};\n}})();\n'
        )
    return Html("".join(made))


def _read(path: str) -> str:
    """Read a file of the package, which may be in a zip file."""
    return files("groupkeeper").joinpath(*path.split("/")).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
