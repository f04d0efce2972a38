"""The report: which parts it has, in which order, and what is said where a part is empty."""

from collections.abc import Callable, Sequence
from typing import Final

from groupkeeper.analytics.page.about import About
from groupkeeper.analytics.page.all_tables import all_tables
from groupkeeper.analytics.page.blame import barrier, not_stable
from groupkeeper.analytics.page.data import Data, Row, Tables
from groupkeeper.analytics.page.document import Part, document
from groupkeeper.analytics.page.findings import findings_of, findings_part
from groupkeeper.analytics.page.group_table import groups_part
from groupkeeper.analytics.page.idle import idle_members
from groupkeeper.analytics.page.markup import Html, joined, tag
from groupkeeper.analytics.page.panels import Panels
from groupkeeper.analytics.page.read import summary, what_was_read
from groupkeeper.analytics.page.restarts import restart_gaps
from groupkeeper.analytics.page.svg import Figure
from groupkeeper.analytics.page.timeline import rate, timeline
from groupkeeper.analytics.page.times import count, period
from groupkeeper.analytics.page.what_if import what_if

Link = Callable[[str], str | None]
"""Place in the page where more is said of a group."""
PAGE_BYTES: Final = 1_000_000
"""Of the whole page: a browser opens it in a moment, and mail takes it."""
REST_BYTES: Final = 80_000
"""Style, script, and what is around the rows of tables."""
NO_ROUNDS: Final = "No rebalances: the table `rounds` is missing or empty."
NO_FINDINGS: Final = "No findings: the table `findings` was not made."
NO_PANELS: Final = (
    "No pictures of single groups: the tables `ownership`, `commit_minutes` and `lag` have "
    "nothing of these groups."
)
NO_TABLES: Final = "The analysis made no tables."
NO_TIME: Final = "No rebalance has a duration (table `rounds`)."
NO_BARRIER: Final = "Nobody joined a second or more after the others (table `rounds`)."
NO_RESTARTS: Final = "No client was seen to come back (table `sessions`)."
NO_WHAT_IF: Final = "Nothing was replayed with other settings (table `what_if`)."
NO_IDLE: Final = "No group had a member without a partition (table `members`)."


def render(tables: Tables, about: About) -> str:
    """The page as HTML. A missing or empty table leaves its part out, and a line says so."""
    data = Data(tables, about.made)
    findings = findings_of(data)
    panels = Panels(data, findings)
    told = findings_part(findings, data.span, panels.link) if "findings" in tables else None
    parts = [
        Part("findings", "Findings", told, NO_FINDINGS),
        Part("read", "What was read", what_was_read(data, about)),
        Part("time", "Over time", _over_time(data, findings, panels.link), NO_ROUNDS),
        Part("groups", "Group by group", panels.html(), NO_PANELS),
        Part("cost", "What it cost, and why", _cost(data, panels.link)),
        Part("what-if", "What if", _joined(what_if(data)), NO_WHAT_IF),
        Part("all", "All groups", groups_part(data, panels.link), NO_ROUNDS),
    ]
    used = sum(len((each.content or "").encode("utf-8")) for each in parts)
    tables_part = all_tables(data, about, max(PAGE_BYTES - REST_BYTES - used, 0))
    parts.append(Part("tables", "All tables", tables_part, NO_TABLES))
    made = f"{about.made:%Y-%m-%d %H:%M} UTC"
    foot = f"Made by Groupkeeper {about.version}, {made}. All times are UTC."
    title = "No rebalance has a usable time" if data.has("rounds") else "No group was read"
    if data.groups:
        title = f"What happened to {count(len(data.groups), 'group')}, {period(data.span)}"
    return document(title, summary(data, about, findings), parts, foot)


def _over_time(data: Data, rows: Sequence[Row], link: Link) -> Html | None:
    return _joined([rate(data, rows), timeline(data, link)]) if data.groups else None


def _cost(data: Data, link: Link) -> Html:
    figures = (
        (not_stable(data, link), NO_TIME),
        (barrier(data, link), NO_BARRIER),
        (restart_gaps(data), NO_RESTARTS),
        (idle_members(data, link), NO_IDLE),
    )
    return joined(
        figure.html() if figure is not None else tag("p", missing, class_="missing")
        for figure, missing in figures
    )


def _joined(figures: Sequence[Figure]) -> Html | None:
    return joined([each.html() for each in figures]) if figures else None
