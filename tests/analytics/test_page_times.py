"""Times and amounts in the report."""

import pytest

from groupkeeper.analytics.page.times import (
    DAY,
    HOUR,
    MINUTE,
    TimeSpan,
    count,
    length,
    period,
    share,
    step_name,
    ticks,
)

FIRST = 1_794_182_400_000  # 2026-11-09, a Monday


@pytest.mark.parametrize(
    ("ms", "labels"),
    [
        (14 * DAY, ["Mon 9 Nov", "Wed 11 Nov", "Fri 13 Nov"]),
        (90 * DAY, ["Mon 9 Nov", "Mon 23 Nov", "Mon 7 Dec"]),
        (DAY, ["Mon 9 Nov", "03:00", "06:00"]),
        (10 * MINUTE, ["9 Nov 00:00", "00:02", "00:04"]),
        (60_000, ["9 Nov 00:00:00", "00:00:10", "00:00:20"]),
    ],
)
def test_ticks_are_at_round_times(ms, labels):
    assert [words for _, words in ticks(TimeSpan(FIRST, FIRST + ms), 9)][:3] == labels


@pytest.mark.parametrize("ms", [1_000, 7 * HOUR, 400 * DAY, 70 * 365 * DAY])
def test_there_are_few_ticks(ms):
    found = ticks(TimeSpan(FIRST - ms, FIRST), 9)
    assert 1 <= len(found) <= 11


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0"), (850, "850 ms"), (2_000, "2 s"), (3 * DAY, "3 d"), (3 * DAY + 2 * HOUR, "3 d 2 h")],
)
def test_lengths(ms, words):
    assert length(ms) == words


def test_a_part_is_not_said_to_be_nothing_or_everything():
    assert share(1, 1_000_000) == "< 0.1 %"
    assert share(999_999, 1_000_000) == "> 99.9 %"
    assert share(0, 5) == "0.0 %"
    assert share(5, 5) == "100 %"


def test_words_of_amounts():
    assert (count(1, "row"), count(1_234, "row")) == ("1 row", "1,234 rows")
    assert (step_name(HOUR), step_name(2 * HOUR), step_name(30_000)) == (
        "hour",
        "2 hours",
        "30 seconds",
    )


def test_a_period_says_its_day_once():
    at = FIRST + 14 * HOUR
    assert period(TimeSpan(at, at + HOUR)) == "2026-11-09 14:00 to 15:00"
    assert period(TimeSpan(FIRST, FIRST + 14 * DAY)) == "2026-11-09 to 2026-11-23"
