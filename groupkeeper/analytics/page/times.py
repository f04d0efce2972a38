"""Formats times and amounts for people, and places ticks at round values. All times are UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from groupkeeper.why.texts import span

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
NONE: Final = "\u2013"
"""Shown for an unknown value."""
MONDAY: Final = 4 * DAY
"""1970-01-05, a Monday: weeks begin there."""
STEPS: Final = (
    *(each * SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * HOUR for each in (1, 2, 3, 6, 12)),
    *(each * DAY for each in (1, 2)),
    *(each * WEEK for each in (1, 2, 4, 8, 13, 26, 52, 104, 260, 520, 1040, 5200)),
)
"""Distances of ticks, and lengths of bins."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A period in milliseconds since 1970; `end` is after `start`."""

    start: int
    end: int

    @property
    def ms(self) -> int:
        return self.end - self.start

    def has(self, at: int | None) -> bool:
        return at is not None and self.start <= at <= self.end


def step(ms: int, most: int) -> int:
    """Return the smallest step such that `most` of them cover a duration."""
    return next((each for each in STEPS if each * most >= ms), STEPS[-1])


EARLIEST: Final = 946_684_800_000
"""2000-01-01: before Kafka existed."""


def floor(at: int, size: int) -> int:
    """Return the beginning of the step that contains `at`."""
    start = MONDAY if size >= WEEK else 0
    return (at - start) // size * size + start


def ticks(shown: TimeSpan, most: int) -> list[tuple[int, str]]:
    """Return about `most` round times at most, with labels; the day is shown where it changes."""
    size = step(shown.ms, most)
    first = floor(shown.start, size)
    times = [at for at in range(first, shown.end + 1, size) if shown.has(at)]
    told: list[tuple[int, str]] = []
    day = None
    for at in times:
        when = moment(at)
        is_new, day = when.date() != day, when.date()
        told.append((at, _label(when, size, is_new)))
    return told


def _label(when: datetime, size: int, is_new_day: bool) -> str:
    if size >= 52 * WEEK:
        return f"{when:%b %Y}"
    if size >= DAY:
        return f"{when:%a} {when.day} {when:%b}"
    if is_new_day and size >= HOUR and when.hour == 0:
        return f"{when:%a} {when.day} {when:%b}"
    clock = f"{when:%H:%M}" if size >= MINUTE else f"{when:%H:%M:%S}"
    return f"{when.day} {when:%b} {clock}" if is_new_day else clock


def moment(at: int) -> datetime:
    """Convert to datetime, limited to its range."""
    return datetime.fromtimestamp(min(max(at, 0), 253_370_764_800_000) / 1000, UTC)


def day_time(at: int | None) -> str:
    """Format as 2026-11-22 10:32:56, or a dash."""
    return NONE if at is None else f"{moment(at):%Y-%m-%d %H:%M:%S}"


def period(shown: TimeSpan) -> str:
    """Format a period: its days, or its times within one day."""
    start, end = moment(shown.start), moment(shown.end)
    if start.date() == end.date():
        clock = "%H:%M:%S" if shown.ms < 10 * MINUTE else "%H:%M"
        return f"{start:%Y-%m-%d} {start:{clock}} to {end:{clock}}"
    if shown.ms < 3 * DAY:
        return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    return f"{start:%Y-%m-%d} to {end:%Y-%m-%d}"


def length(ms: float | None) -> str:
    """Format a duration in two units: 3.2 s, 5 min 3 s, 12 d 4 h."""
    if ms is None:
        return NONE
    if ms == 0:
        return "0"
    if ms >= 2 * DAY:
        days, rest = divmod(round(ms / HOUR), 24)
        return f"{days:,} d {rest} h" if rest else f"{days:,} d"
    return span(round(ms)).replace(".0 s", " s")


def step_name(ms: int) -> str:
    """Return a step as the unit of a rate: minute, 5 minutes, day."""
    for size, word in ((WEEK, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if ms % size == 0:
            amount = ms // size
            return word if amount == 1 else f"{amount} {word}s"
    return "second" if ms == SECOND else f"{ms // SECOND} seconds"


def count(number: float, one: str = "", many: str = "") -> str:
    """Format a number with its noun: 1,234 rows."""
    shown = f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"
    word = one if number == 1 else many or f"{one}s"
    return f"{shown} {word}" if one else shown


def share(part: float, whole: float) -> str:
    """Format a percentage; 0 and 100 are shown only if exact."""
    if not whole:
        return NONE
    value = 100 * part / whole
    if 0 < value < 0.1:
        return "< 0.1 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


# Any: a value of any numeric column.
def told(column: str, value: Any) -> str:
    """Format a number according to its column: duration, percentage, name or amount."""
    if value is None:
        return NONE
    if column.endswith("_ms"):
        return length(value)
    if re.search(r"(^|_)(share|within)$", column):
        return share(value, 1)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith(("offset", "partition", "epoch", "generation", "round", "id")):
        return str(value)
    return f"{value:,.3g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,.0f}"
