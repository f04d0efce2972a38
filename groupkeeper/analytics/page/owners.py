"""Who owned which partition, from when to when: one row a partition, for the part of the time in
which most went without an owner.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.analytics.page.causes import swatch
from groupkeeper.analytics.page.data import Data, Group, Row
from groupkeeper.analytics.page.markup import Html, cut, joined, name, tag
from groupkeeper.analytics.page.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Marks,
    Scale,
    box,
    label,
    picture,
    time_axis,
    time_scale,
)
from groupkeeper.analytics.page.times import (
    MINUTE,
    STEPS,
    Span,
    count,
    length,
    median,
    period,
)
from groupkeeper.why.texts import short_id

ROWS: Final = 32
"""Partitions in a picture; those without an owner for the longest."""
INTERVALS: Final = 2_500
"""In a picture; a shorter time is shown where there are more."""
LETTERS: Final = 300
OWNERS: Final = 24
"""In the legend."""
SEEN: Final = 150
"""The usual time without an owner is at least this part of the time that is shown: 5 pixels."""
COLOURS: Final = 8
_ROW: Final = 18
_TOP: Final = 26
COLUMNS: Final = (
    *("topic", "topic_partition", "from", "until", "is_owned", "member", "instance"),
    *("client_id", "host"),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """`owner` is None where nobody owned the partition."""

    partition: tuple[str, int]
    start: int
    end: int
    owner: str | None
    told: str


def intervals(rows: Sequence[Row], span: Span) -> list[Interval]:
    found = []
    for row in rows:
        start, end = row["from"], row["until"] if span.has(row["until"]) else span.end
        if not span.has(start) or row["topic_partition"] is None or end <= start:
            continue
        place = (row["topic"] or "", row["topic_partition"])
        owner = (row["instance"] or row["member"] or "?") if row["is_owned"] else None
        found.append(Interval(place, start, end, owner, _told(row)))
    return sorted(found, key=lambda each: (each.start, each.partition))


def _told(row: Row) -> str:
    who = row["instance"] or short_id(row["member"] or "") or row["client_id"] or "?"
    return f"{who} on {row['host']}" if row["host"] else str(who)


def shown_span(every: Sequence[Interval], span: Span) -> Span:
    """So long that gaps are seen, where the sum of gaps is the largest."""
    gaps = [each for each in every if each.owner is None]
    if not gaps:
        return span
    wanted = max(SEEN * median(each.end - each.start for each in gaps), 2 * MINUTE)
    while True:
        size = max((each for each in STEPS if each <= wanted), default=STEPS[0])
        if size >= span.ms:
            return span
        found = _worst(gaps, size)
        shown = Span(max(found - size // 20, span.start), found - size // 20 + size)
        if sum(_is_seen(each, shown) for each in every) <= INTERVALS or size == STEPS[0]:
            return shown
        wanted = size - 1


def _worst(gaps: Sequence[Interval], size: int) -> int:
    """Where a window of this size begins that has the most time of gaps that begin in it."""
    best, at, total, last = -1, gaps[0].start, 0, 0
    for first in gaps:
        while last < len(gaps) and gaps[last].start < first.start + size:
            total += min(gaps[last].end - gaps[last].start, size)
            last += 1
        if total > best:
            best, at = total, first.start
        total -= min(first.end - first.start, size)
    return at


def _is_seen(each: Interval, shown: Span) -> bool:
    return each.start < shown.end and each.end > shown.start


class Letters:
    """Letters of owners, in the order in which they appear, as on the live page."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.told: list[str] = []

    def number(self, each: Interval) -> int:
        assert each.owner is not None
        if each.owner not in self._numbers:
            self._numbers[each.owner] = len(self.told)
            self.told.append(each.told)
        return self._numbers[each.owner]

    @staticmethod
    def letter(number: int) -> str:
        return chr(65 + number % 26) + (str(number // 26) if number >= 26 else "")

    def legend(self) -> Html:
        more = len(self.told) - OWNERS
        return tag(
            "ul",
            tag("li", swatch("unowned"), "no owner"),
            [tag("li", _swatch(at), name(told)) for at, told in enumerate(self.told[:OWNERS])],
            tag("li", f"and {count(more)} more") if more > 0 else None,
            class_="legend",
        )


def _swatch(number: int) -> Html:
    marks = Marks()
    marks.across(f"o{number % COLOURS}", 16, 0, 8, 22)
    letter = label(11, 12, Letters.letter(number), f"middle tiny t{number % COLOURS}")
    return tag(
        "svg", marks.html(), letter, width=22, height=16, aria_hidden="true", class_="swatch"
    )


def ownership(data: Data, group: Group, identity: str) -> Figure | None:
    """None if nothing is known of it."""
    every = intervals(data.rows("ownership", COLUMNS, [group.name]), data.span)
    if not every:
        return None
    shown = shown_span(every, data.span)
    seen = [each for each in every if _is_seen(each, shown)]
    lost: Counter[tuple[str, int]] = Counter()
    for each in seen:
        lost[each.partition] += _within(each, shown) if each.owner is None else 0
    worst = sorted(lost, key=lambda place: (-lost[place], place))[:ROWS]
    places = {place: row for row, place in enumerate(sorted(worst))}
    letters, bottom = Letters(), _TOP + _ROW * len(places)
    bars = _bars([each for each in seen if each.partition in places], places, shown, letters)
    total = sum(lost.values())
    left = len(lost) - len(places)
    rest = (
        f" The {len(places)} with the longest gaps of {count(len(lost), 'partition')}."
        if left
        else ""
    )
    drawn = picture(
        f"{identity}-owners",
        bottom + 26,
        f"Owners of {count(len(places), 'partition')}, {period(shown)} UTC; without an owner for "
        f"{length(total)} of partition time.",
        [box(0, _TOP + _ROW * row, WIDTH, _ROW, "stripe") for row in range(0, len(places), 2)],
        time_axis(shown, time_scale(shown), _TOP, bottom),
        bars,
        [_ends(place, row, lost[place]) for place, row in places.items()],
        _causes(group, shown),
        label(WIDTH - RIGHT + 8, 16, "no owner", "small quiet"),
    )
    whole = "all the time" if shown == data.span else "the part with most time without an owner"
    return Figure(
        f"{identity}-owners",
        f"Who owned which partition, {period(shown)}",
        "Look for hatched columns: nobody read these partitions. A letter that changes behind one "
        "says that the partition moved.",
        f"One row a partition; {whole}.{rest} Letters above are causes of rebalances; at the "
        "right: how long without an owner. Time: UTC.",
        drawn,
        letters.legend(),
        "h4",
    )


def _within(each: Interval, shown: Span) -> int:
    return min(each.end, shown.end) - max(each.start, shown.start)


def _bars(
    seen: Sequence[Interval], places: dict[tuple[str, int], int], shown: Span, letters: Letters
) -> Html:
    scale, marks = time_scale(shown), Marks()
    texts: list[Html] = []
    before: dict[tuple[str, int], int] = {}
    lettered: dict[tuple[str, int], int] = {}
    for each in seen:
        x = scale(max(each.start, shown.start))
        wide = scale(min(each.end, shown.end)) - x
        y = _TOP + _ROW * places[each.partition] + _ROW / 2
        if each.owner is None:
            marks.across("unowned", _ROW - 1, x, y, max(wide, 1.5))
            continue
        number = letters.number(each)
        marks.across(f"o{number % COLOURS}", _ROW - 5, x, y, max(wide, 0.6))
        is_moved = before.get(each.partition, number) != number
        before[each.partition] = number
        if lettered.get(each.partition) != number and wide >= 14 and len(texts) < LETTERS:
            texts.append(_letter(number, x, y, is_moved=is_moved and wide >= 24))
            lettered[each.partition] = number
    return joined([marks.html(), texts])


def _letter(number: int, x: float, y: float, *, is_moved: bool) -> Html:
    words = f"{'▸' if is_moved else ''}{Letters.letter(number)}"
    return label(x + 3, y + 4, words, f"tiny t{number % COLOURS}")


def _ends(place: tuple[str, int], row: int, lost: int) -> list[Html]:
    y = _TOP + _ROW * row + 13
    whole = f"{place[0]}-{place[1]}"
    return [
        label(LEFT - 8, y, cut(whole, 22), "end small"),
        label(WIDTH - RIGHT + 8, y, length(lost), "small"),
    ]


def _causes(group: Group, shown: Span) -> list[Html]:
    """Letters of causes above the beginnings of rebalances, as far as there is room."""
    scale: Scale = time_scale(shown)
    found: list[Html] = []
    last: Any = None
    for each in group.rounds:
        x = scale(each.at)
        if shown.has(each.at) and (last is None or x - last >= 11):
            found.append(label(x, 16, each.family.letter, "middle small strong"))
            last = x
    return found
