"""Findings as cards: a sentence, the setting to change, the time, and the evidence in the log."""

from collections import Counter
from typing import Final

from groupkeeper.analytics.page.data import Data, PageRow
from groupkeeper.analytics.page.markup import Html, PageLink, fill, linked, name
from groupkeeper.analytics.page.times import TimeSpan, count, day_time, period
from groupkeeper.analytics.schemas import LOG

CARDS: Final = 30
"""Maximum number of cards; other findings are only in the table of findings."""
OFFSETS: Final = 6
"""Maximum number of offsets per card; the table of findings has more."""
SIGNS: Final = {
    "critical": "✖",
    "high": "▲",
    "warning": "▲",
    "medium": "◆",
    "low": "●",
    "info": "ⓘ",
}
"""Severity -> sign, the most severe first. Other severities come last, without a sign."""
COLUMNS: Final = (
    *("id", "severity", "group", "from", "to", "sentence", "config_key", "now", "proposed"),
    *("evidence", "partition", "question", "source", "confidence"),
)
ALL_OF_IT: Final = 0.98
"""A finding about this share of the time counts as "all the time"."""

TOGETHER: Final = frozenset({"storms", "rebalance_rate", "flapping", "restart_gaps", "not_stable"})
"""Questions about rebalances, which one cause answers together: one card for a group."""

_CARD: Final = """<li id="finding-{}" class="finding {}"><p><span class="ordinal">{}</span>
<span class="severity {}">{}</span>{}</p><p class="sentence">{}</p>{}<p class="quiet">{}</p>{}</li>
"""


def findings_of(data: Data) -> list[PageRow]:
    """Return the findings, the most severe first, otherwise in their order."""
    order = [*SIGNS]
    return sorted(
        data.rows("findings", COLUMNS),
        key=lambda row: order.index(row["severity"]) if row["severity"] in order else len(order),
    )


def findings_part(rows: list[PageRow], span: TimeSpan, link: PageLink) -> Html:
    """Return all cards, and the number of findings per severity and question."""
    if not rows:
        return Html("<p>Nothing was found that should be changed.</p>")
    severities = Counter(str(row["severity"]) for row in rows).items()
    told = ", ".join(f"{count(number)} {severity}" for severity, number in severities)
    asked = Counter(row["question"] for row in rows if row["question"] is not None).most_common()
    of = ", ".join(f"{each.replace('_', ' ')} {count(number)}" for each, number in asked)
    piles = _piles(rows)
    cards = [_card(pile, span, link) for pile in piles[:CARDS]]
    left = sum(map(len, piles[CARDS:]))
    more = f"{count(left, 'more finding')}: see the table of findings."
    return fill(
        '<p>{}: {}.</p>{}<ol class="findings">{}</ol>{}',
        count(len(rows), "finding"),
        told,
        fill('<p class="quiet">By question: {}.</p>', of) if len(asked) > 1 else None,
        cards,
        fill("<p>{}</p>", more) if left else None,
    )


_Numbered = tuple[int, PageRow]


def _piles(rows: list[PageRow]) -> list[list[_Numbered]]:
    """Put findings that have one cause together, with their numbers.

    They are about rebalances of one group, or propose the same change of one setting to it.
    """
    piles: dict[object, list[_Numbered]] = {}
    for number, row in enumerate(rows, 1):
        change = row["config_key"], row["proposed"]
        about: object = change if row["config_key"] is not None else number
        about = TOGETHER if row["question"] in TOGETHER else about
        key = number if row["group"] is None else (row["group"], about)
        piles.setdefault(key, []).append((number, row))
    return [*piles.values()]


_ALSO: Final = '<p class="quiet" id="finding-{}">Also finding {}, {}: {}</p>'


def _also(number: int, row: PageRow) -> Html:
    """Return a further finding with the same cause."""
    sign = f"{SIGNS.get(row['severity'], '·')} {row['severity']}"
    return fill(_ALSO, number, number, sign, row["sentence"])


def _card(pile: list[_Numbered], span: TimeSpan, link: PageLink) -> Html:
    number, row = pile[0]
    severity, group, key = row["severity"], row["group"], row["config_key"]
    kind = severity if severity in SIGNS else "info"
    now, proposed = row["now"], row["proposed"]
    change = [
        fill("<code>{}</code>", name(key, 80)),
        fill(" <s>{}</s> →", name(now, 80)) if now is not None else None,
        fill(" <b>{}</b>", name(proposed, 160)) if proposed is not None else None,
    ]
    sure = "" if row["confidence"] is None else f", confidence {row['confidence']:.2f}"
    is_all = within(row, span).ms >= ALL_OF_IT * span.ms
    said = (
        "All the time." if is_all else _times(row),
        _evidence(row),
        f"Inferred{sure}." if row["source"] == LOG else "",
    )
    return fill(
        _CARD,
        *(number, kind, number, kind, f"{SIGNS.get(severity, '·')} {severity}"),
        fill("<b>{}</b>", linked(group, link(group))) if group is not None else None,
        row["sentence"],
        fill('<p class="change">{}</p>', change) if key is not None else None,
        " ".join(filter(None, said)),
        [_also(*each) for each in pile[1:]],
    )


def within(row: PageRow, span: TimeSpan) -> TimeSpan:
    """Return the part of the report's period that a finding is about."""
    start = row["from"] if row["from"] is not None else span.start
    end = row["to"] if row["to"] is not None else span.end
    start = min(max(start, span.start), span.end)
    return TimeSpan(start, min(max(end, start), span.end))


def _times(row: PageRow) -> str:
    start, end = row["from"], row["to"]
    if start is not None and end is not None:
        return f"{period(TimeSpan(start, end))} UTC."
    if start is None and end is None:
        return "At an unknown time."
    return f"Since {day_time(start)} UTC." if end is None else f"Until {day_time(end)} UTC."


def _evidence(row: PageRow) -> str:
    offsets = row["evidence"] or []
    if not offsets:
        return ""
    shown = ", ".join(str(each) for each in offsets[:OFFSETS])
    more = f" and {count(len(offsets) - OFFSETS)} more" if len(offsets) > OFFSETS else ""
    of = "" if row["partition"] is None else f" of partition {row['partition']}"
    return f"Evidence: offset{'s' if len(offsets) > 1 else ''} {shown}{more}{of}."
