"""When groups commit, when they stop, and how far they are behind.

Commits are known by the minute, from the offsets log. What was compacted away cannot be told from
silence: only minutes after `known_from` count.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TIME, Column
from groupkeeper.analytics.questions.asking import One, question
from groupkeeper.analytics.questions.figures import GROUP, HOUR_MS, MINUTE_MS, starts_of
from groupkeeper.analytics.questions.rows import NONE, Numbers, Row

Reals = npt.NDArray[np.float64]
_TP: Final = ("topic", "topic_partition")
PARTITION: Final = (
    Column("topic", TEXT, "Topic."),
    Column("topic_partition", INT, "Partition of the topic."),
)
_MINUTES: Final = (
    *("topic", "topic_partition", "minute", "commits", "first_offset", "last_offset"),
    *("first_time", "last_time", "longest_gap_ms", "partition"),
)


@question(
    "Commit rhythm",
    "How often each partition is committed: an uneven rhythm is a consumer that works in bursts or"
    " is interrupted.",
    reads={"commit_minutes": _MINUTES},
    columns=(
        GROUP,
        *PARTITION,
        Column("from", TIME, "The first commit."),
        Column("until", TIME, "The last commit."),
        Column("commits", LONG, "How many."),
        Column("per_minute", REAL, "Commits a minute between them."),
        Column("variation", REAL, "Standard deviation of commits a minute by their mean: 0 is even,"
               " 1 is by chance, more is in bursts; null for less than three minutes."),
        Column("longest_gap_ms", LONG, "Longest time between two commits; null for one."),
        Column("records", LONG, "By how much the committed offset rose; null: it was removed."),
        Column("per_second", REAL, "Records a second between the two; null for one commit."),
        Column("steps", LONG, "Changes of the rhythm (`rhythm_steps`)."),
    ),
)  # fmt: skip
def commit_rhythm(one: One, *, factor: float = 2.5, window_ms: int = HOUR_MS) -> Iterator[Row]:
    """Per partition of a topic: all commits from the first to the last one, minutes without any
    included. The first and the last minute are not whole: they count for the sums, not for
    `variation`.
    """
    rows = one["commit_minutes"]
    codes, names = rows.codes(*_TP)
    commits, minutes = rows.numbers("commits"), rows.numbers("minute")
    firsts, lasts = rows.numbers("first_time"), rows.numbers("last_time")
    bounds = starts_of(codes)
    starts, ends = bounds[:-1], bounds[1:] - 1
    counts, spans = np.add.reduceat(commits, starts), lasts[ends] - firsts[starts]
    between = np.concatenate(([-1], firsts[1:] - lasts[:-1]))
    between[starts] = -1
    gaps = np.maximum.reduceat(np.maximum(between, rows.numbers("longest_gap_ms", -1)), starts)
    offsets = rows.numbers("first_offset")[starts], rows.numbers("last_offset")[ends]
    records = np.where((offsets[0] == NONE) | (offsets[1] == NONE), NONE, offsets[1] - offsets[0])
    variations = _variations(minutes, commits, bounds)
    steps = Counter(place for place, *_ in _steps(minutes, commits, bounds, factor, window_ms))
    columns = (firsts[starts], spans, counts, gaps, records)
    for place, (since, span, count, gap, rise) in enumerate(
        zip(*(each.tolist() for each in columns), strict=True)
    ):
        yield {
            "group": one.key[0],
            **dict(zip(_TP, names[place], strict=True)),
            "from": since,
            "until": since + span,
            "commits": count,
            "per_minute": count * MINUTE_MS / max(span, MINUTE_MS),
            "variation": variations[place],
            "longest_gap_ms": gap if gap >= 0 else None,
            "records": rise if rise != NONE else None,
            "per_second": rise * 1000 / span if span and rise != NONE else None,
            "steps": steps[place],
        }


def _variations(minutes: Numbers, commits: Numbers, bounds: Numbers) -> list[float | None]:
    """Of whole minutes: those between the first and the last one; None if there are less than 3."""
    starts, ends = bounds[:-1], bounds[1:] - 1
    whole = (minutes[ends] - minutes[starts]) // MINUTE_MS - 1
    sums, squares = (
        np.add.reduceat(each, starts) - each[starts] - each[ends]
        for each in (commits.astype(np.float64), commits.astype(np.float64) ** 2)
    )
    is_known = (whole >= 3) & (sums > 0)
    means = np.where(is_known, sums, 1) / np.maximum(whole, 1)
    found = np.sqrt(np.maximum(0.0, squares / np.maximum(whole, 1) - means**2)) / means
    return [each if known else None for each, known in zip(found.tolist(), is_known, strict=True)]


LEAST_COMMITS: Final = 20
"""A window with the higher rate has at least this many commits: fewer differ by chance."""


def _steps(
    minutes: Numbers, commits: Numbers, bounds: Numbers, factor: float, window_ms: int
) -> Iterator[tuple[int, int, float, float]]:
    """Number of the partition, beginning of the window with the step, and commits a window before
    and after.
    """
    sizes = np.diff(bounds)
    begun = minutes[bounds[:-1]]
    windows = (minutes - np.repeat(begun, sizes)) // window_ms
    whole = windows[bounds[1:] - 1]  # the last one is not
    width = int(whole.max(initial=0)) + 1
    if width < 5:
        return
    places = np.repeat(np.arange(len(sizes)), sizes)
    cells = np.bincount(places * width + windows, commits, len(sizes) * width)
    counts: Reals = cells.reshape(-1, width).astype(np.float64, copy=False)
    # The step is at the beginning of a window, or in it: then this one is of neither rate.
    sharp, mixed = (_are_steps(counts, whole, factor, skipped) for skipped in (0, 1))
    every = np.pad(sharp | mixed, ((0, 0), (1, 1)))
    edges = np.pad(sharp, ((0, 0), (1, 1)))
    # One step may be seen at two windows: a sharp edge is where it is, else it is at the first.
    first = sharp & ~edges[:, :-2] | mixed & ~sharp & ~edges[:, 2:] & ~every[:, :-2]
    for place, index in zip(*(each.tolist() for each in np.nonzero(first)), strict=True):
        after = index if sharp[place, index] else index + 1
        means = (float(counts[place, at : at + 2].mean()) for at in (index - 2, after))
        yield place, int(begun[place]) + index * window_ms, *means


def _are_steps(counts: Reals, whole: Numbers, factor: float, skipped: int) -> npt.NDArray[np.bool_]:
    """For each window, whether the two from it on, or from `skipped` later on, differ from the two
    before it.
    """
    one, two = counts[:, :-1], counts[:, 1:]
    least, most = np.minimum(one, two), np.maximum(one, two)
    behind = 2 + skipped
    low, high = least[:, :-behind], least[:, behind:]
    rose = (high >= factor * most[:, :-behind]) & (high >= LEAST_COMMITS)
    fell = (factor * most[:, behind:] <= low) & (low >= LEAST_COMMITS)
    found = np.zeros(counts.shape, dtype=bool)
    index = np.arange(2, 2 + low.shape[1])
    found[:, index] = (rose | fell) & (index + skipped + 1 < whole[:, None])
    return found


@question(
    "Changes of the commit rhythm",
    "When a partition began to be committed much more or less often: look for a deploy then.",
    reads={"commit_minutes": ("topic", "topic_partition", "minute", "commits", "partition")},
    columns=(
        GROUP,
        *PARTITION,
        Column("at", TIME, "Beginning of the window in which it changed."),
        Column("before_per_minute", REAL, "Commits a minute in the two windows before."),
        Column("after_per_minute", REAL, "Commits a minute in the two windows after."),
        Column("factor", REAL, "After by before; null if there were none before."),
    ),
)
def rhythm_steps(one: One, *, factor: float = 2.5, window_ms: int = HOUR_MS) -> Iterator[Row]:
    """Per partition: where each of two windows in a row has at least `factor` times the commits of
    each of the two windows before, or each of those as much more; the higher ones with at least 20
    commits. One window between them may have both rates. Windows begin with the first commit; the
    last one is not whole and does not count. The factor leaves room for a real step of 3.
    """
    rows = one["commit_minutes"]
    codes, names = rows.codes(*_TP)
    commits, minutes = rows.numbers("commits"), rows.numbers("minute")
    for place, at, before, after in _steps(minutes, commits, starts_of(codes), factor, window_ms):
        yield {
            "group": one.key[0],
            **dict(zip(_TP, names[place], strict=True)),
            "at": at,
            "before_per_minute": before * MINUTE_MS / window_ms,
            "after_per_minute": after * MINUTE_MS / window_ms,
            "factor": after / before if before else None,
        }


@question(
    "Lag in seconds",
    "How old the records are that a group reads next: the delay that its users see.",
    reads={"lag": ("topic", "topic_partition", "time", "end_offset", "lag", "lag_ms")},
    columns=(
        GROUP,
        *PARTITION,
        Column("from", TIME, "The first sample."),
        Column("until", TIME, "The last sample."),
        Column("samples", LONG, "One for each minute with a commit."),
        Column("median_ms", LONG, "Lag in time: median of the samples."),
        Column("p95_ms", LONG, "What 95 % of the samples do not exceed."),
        Column("longest_ms", LONG, "The longest."),
        Column("longest_at", TIME, "When that was."),
        Column("now_ms", LONG, "At the last sample."),
        Column("now", LONG, "The same in records."),
    ),
)
def lag_seconds(one: One) -> Iterator[Row]:
    """Per partition: the age of the first record that is not committed, each time that a minute's
    last commit was made; samples whose age is not known are left out.
    """
    rows = one["lag"]
    codes, names = rows.codes(*_TP)
    times, ages, lags = (rows.numbers(name) for name in ("time", "lag_ms", "lag"))
    for name, (start, end) in zip(names, pairwise(starts_of(codes).tolist()), strict=True):
        where = np.flatnonzero(ages[start:end] != NONE) + start
        if not len(where):
            continue
        known = np.sort(ages[where])
        longest = int(where[np.argmax(ages[where])])
        last = int(where[-1])
        yield {
            "group": one.key[0],
            **dict(zip(_TP, name, strict=True)),
            "from": int(times[where[0]]),
            "until": int(times[last]),
            "samples": len(where),
            "median_ms": _at_rank(known, 0.5),
            "p95_ms": _at_rank(known, 0.95),
            "longest_ms": int(ages[longest]),
            "longest_at": int(times[longest]),
            "now_ms": int(ages[last]),
            "now": int(lags[last]) if lags[last] != NONE else None,
        }


def _at_rank(known: Numbers, share: float) -> int:
    return int(known[max(1, int(np.ceil(share * len(known)))) - 1])
