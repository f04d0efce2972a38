"""Findings: cards with a sentence, the number to change, when it was, and where the log says so."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.page.data import Data, Row
from groupkeeper.analytics.page.markup import Html, joined, name, tag, text
from groupkeeper.analytics.page.svg import Scale, box
from groupkeeper.analytics.page.times import Span, count, day_time, period

CARDS: Final = 30
"""The others are in the table of findings."""
OFFSETS: Final = 6
"""Of the evidence of a finding; the table of findings has some more."""
SEVERITIES: Final[Mapping[str, tuple[str, str]]] = {
    "critical": ("✖", "critical"),
    "high": ("▲", "high"),
    "warning": ("▲", "warning"),
    "medium": ("◆", "medium"),
    "low": ("●", "low"),
    "info": ("ⓘ", "info"),
}
"""Severity -> sign and class, the worst first. Others come last, in plain."""
COLUMNS: Final = (
    *("id", "severity", "group", "from", "to", "sentence", "config_key", "now", "proposed"),
    *("evidence", "partition", "question", "source", "confidence"),
)
ALL_OF_IT: Final = 0.98
"""A finding about so much of the time is about all of it."""
_STRIP: Final = 160


def findings_of(data: Data) -> list[Row]:
    """The worst first; within one severity as they were found."""
    order = {each: number for number, each in enumerate(SEVERITIES)}
    rows = data.rows("findings", COLUMNS)
    return sorted(rows, key=lambda row: order.get(row["severity"], len(order)))


def findings_part(rows: list[Row], span: Span, link: Callable[[str], str | None]) -> Html:
    """All cards, and how many of each severity and question there are."""
    if not rows:
        return tag("p", "Nothing was found that should be changed.", class_="nothing")
    counts = Counter(str(row["severity"]) for row in rows)
    told = ", ".join(f"{count(number)} {severity}" for severity, number in counts.items())
    asked = Counter(str(row["question"]) for row in rows if row["question"] is not None)
    of = ", ".join(
        f"{question.replace('_', ' ')} {count(number)}" for question, number in asked.most_common()
    )
    more = len(rows) - CARDS
    return joined(
        [
            tag("p", f"{count(len(rows), 'finding')}: {told}."),
            tag("p", f"By question: {of}.", class_="quiet") if len(asked) > 1 else None,
            tag(
                "ol",
                [_card(number, row, span, link) for number, row in enumerate(rows[:CARDS], 1)],
                class_="findings",
            ),
            tag("p", f"{count(more, 'more finding')}: see the table of findings.")
            if more > 0
            else None,
        ]
    )


def _card(number: int, row: Row, span: Span, link: Callable[[str], str | None]) -> Html:
    sign, kind = SEVERITIES.get(row["severity"], ("·", "info"))
    return tag(
        "li",
        tag(
            "p",
            tag("span", f"{number}", class_="ordinal"),
            tag("span", f"{sign} {row['severity']}", class_=f"severity {kind}"),
            _group(row["group"], link),
        ),
        tag("p", text(row["sentence"] or ""), class_="sentence"),
        _change(row),
        tag("p", _when(row, span), _evidence(row), _sureness(row), class_="quiet"),
        id=f"finding-{number}",
        class_=f"finding {kind}",
    )


def _group(group: str | None, link: Callable[[str], str | None]) -> Html | None:
    if group is None:
        return None
    place = link(group)
    shown = name(group)
    return tag("a", shown, href=place, class_="group") if place else tag("b", shown)


def _change(row: Row) -> Html | None:
    """The setting, and from which to which value."""
    if row["config_key"] is None:
        return None
    now, proposed = row["now"], row["proposed"]
    return tag(
        "p",
        tag("code", name(row["config_key"], 80)),
        [" ", tag("s", name(now, 80)), " →"] if now is not None else None,
        [" ", tag("b", name(proposed, 160))] if proposed is not None else None,
        class_="change",
    )


def within(row: Row, span: Span) -> Span:
    """The part of all the time that a finding is about."""
    start = row["from"] if row["from"] is not None else span.start
    end = row["to"] if row["to"] is not None else span.end
    start = min(max(start, span.start), span.end)
    return Span(start, min(max(end, start), span.end))


def _when(row: Row, span: Span) -> Html:
    """A strip of all the time with this part of it, and the times."""
    scale = Scale(span.start, span.end, 0, _STRIP)
    found = within(row, span)
    start, end = scale(found.start), scale(found.end)
    drawn = tag(
        "svg",
        box(0, 3, _STRIP, 4, "all"),
        box(min(start, _STRIP - 3), 0, max(end - start, 3), 10, "part"),
        width=_STRIP,
        height=10,
        aria_hidden="true",
        class_="when",
    )
    is_all = found.ms >= ALL_OF_IT * span.ms
    return joined([drawn, " All the time. " if is_all else f" {_times(row)} "])


def _times(row: Row) -> str:
    start, end = row["from"], row["to"]
    if start is not None and end is not None:
        return f"{period(Span(start, end))} UTC."
    if start is None and end is None:
        return "Its time is not known."
    return f"Since {day_time(start)} UTC." if end is None else f"Until {day_time(end)} UTC."


def _evidence(row: Row) -> str:
    offsets = row["evidence"] or []
    if not offsets:
        return ""
    shown = ", ".join(str(each) for each in offsets[:OFFSETS])
    more = f" and {count(len(offsets) - OFFSETS)} more" if len(offsets) > OFFSETS else ""
    of = "" if row["partition"] is None else f" of partition {row['partition']}"
    return f"Evidence: offset{'s' if len(offsets) > 1 else ''} {shown}{more}{of}. "


def _sureness(row: Row) -> str:
    if row["source"] != LOG:
        return ""
    sure = row["confidence"]
    return "Inferred." if sure is None else f"Inferred, confidence {sure:.2f}."
