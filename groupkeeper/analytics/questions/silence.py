"""Owners that commit nothing while others of their group do.

Times of one member are put on a line of its own, `member * SPAN_MS + time`, so that all members of
a group are looked at in one pass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from groupkeeper.analytics.history.schemas import LONG, TEXT, TIME, Column
from groupkeeper.analytics.questions.asking import One, question
from groupkeeper.analytics.questions.figures import GROUP, MINUTE_MS, SPAN_MS, joined_up, starts_of
from groupkeeper.analytics.questions.members import MEMBER
from groupkeeper.analytics.questions.rows import NONE, Key, Numbers, Row, Rows

_TP: Final = ("topic", "topic_partition")
_MEMBER: Final = tuple(each.name for each in MEMBER)
_SESSIONS: Final = (
    *("member", "from", "until", "ended_by", "silent_ms", "session_timeout_ms", "partition"),
)
COMMIT, LOSS, LOG_END = "commit", "loss", "log_end"
BREAK_MS: Final = 60_000
"""A rebalance this long, or shorter, does not interrupt a silence."""


@question(
    "Silent owners",
    "Members that own partitions and commit nothing, while the rest of the group goes on: look for"
    " a record that they cannot process, or a thread that hangs.",
    reads={
        "ownership": (
            *(*_TP, *_MEMBER, "from", "until", "is_owned", "partition", "source", "confidence"),
        ),
        "commit_minutes": (*_TP, "minute", "first_time", "last_time", "partition"),
        "lag": (*_TP, "time", "end_offset", "lag"),
        "sessions": _SESSIONS,
    },
    columns=(
        GROUP,
        *MEMBER,
        Column("from", TIME, "Its last commit before, or when it got its partitions."),
        Column("until", TIME, "Its next commit, or when it lost them, or the end of the log."),
        Column("silent_ms", LONG, "Between them."),
        Column("ended", TEXT, "By a `commit`, by the `loss` of its partitions, or not: `log_end`."),
        Column("partitions", LONG, "That it owned at that time and that are usually committed."),
        Column("usual_ms", LONG, "Usual distance of the commits of one of them, the shortest."),
        Column("others_minutes", LONG, "Minutes in which others of the group committed."),
        Column("lag", LONG, "Records to read in those partitions, as last known; null: unknown."),
        Column("ended_by", TEXT, "Why its session ended then, if it sent nothing; null: it lived."),
        Column("session_timeout_ms", LONG, "`session.timeout.ms` of such a session."),
    ),
)
def commit_silence(
    one: One, *, least_ms: int = 600_000, times: float = 5.0, others_share: float = 0.5
) -> Iterator[Row]:
    """Per member: a time of at least `least_ms`, and at least `times` the usual distance of commits
    of its partitions, in which it owned partitions (but for breaks of a minute) and committed none
    of them, while other members committed in at least `others_share` of the minutes. Partitions
    that nobody ever committed do not count, nor those of which `lag` says that there was nothing to
    read: no lag before, and no new record after.
    """
    owned, commits = one["ownership"], one["commit_minutes"]
    if not len(owned) or not len(commits):
        return
    scene = _Scene.of(one, owned, commits)
    for start, end in zip(*scene.gaps(least_ms, times), strict=True):
        member, since = divmod(start, SPAN_MS)
        until = end % SPAN_MS
        places = [
            place
            for place in scene.partitions(member, since, until)
            if place in scene.usual and not scene.is_idle(place, since, until)
        ]
        usual = min((scene.usual[place] for place in places), default=None)
        others = scene.others(member, since, until)
        minutes = max(1, (until - since) // MINUTE_MS)
        if usual is None or until - since < times * usual or others < others_share * minutes:
            continue
        lags = [lag for place in places if (lag := scene.lag_before(place, since)) is not None]
        yield {
            "group": one.key[0],
            **scene.who(member),
            "from": scene.base + since,
            "until": scene.base + until,
            "silent_ms": until - since,
            "ended": scene.ended(end),
            "partitions": len(places),
            "usual_ms": usual,
            "others_minutes": others,
            "lag": sum(lags) if lags else None,
            **scene.end_of(member, since, until),
        }


@dataclass(frozen=True)
class _Scene:
    """One group. Times are milliseconds after `base`; partitions are numbers."""

    base: int
    owned: Rows
    starts: Numbers
    ends: Numbers
    places: Numbers
    members: Numbers
    """Of each time that somebody owned a partition."""
    rows: Numbers
    """Where it is in `owned`."""
    commit_places: Numbers
    commit_minutes: Numbers
    commit_members: Numbers
    """Who owned the partition then; -1: nobody that is known."""
    points: Numbers
    """On the members' lines: when each committed."""
    kept: Numbers
    """The same: up to where it owned something at the end of the log."""
    usual: dict[int, int]
    """Partition -> median distance of minutes with commits, if there are three or more."""
    samples: dict[int, tuple[Numbers, Numbers, Numbers]]
    """Partition -> time, end offset and lag."""
    vanished: Mapping[str, Row]
    """Sessions that ended without a word, by member id."""

    @classmethod
    def of(cls, one: One, owned: Rows, commits: Rows) -> "_Scene":
        known, until = one.reach.known_from, one.reach.until or 0
        rows = np.flatnonzero(np.asarray(owned.column("is_owned").cast("int64").fill_null(0)))
        base = min(int(owned.numbers("from").min()), int(commits.numbers("minute").min()))
        starts = (
            owned.numbers("from")[rows]
            if known is None
            else np.maximum(owned.numbers("from")[rows], known)
        )
        ends = np.maximum(starts, owned.numbers("until", until)[rows])
        numbers: dict[Key, int] = {}
        places = _numbered(owned, numbers)[rows]
        commit_places = _numbered(commits, numbers)
        members = owned.codes("member")[0][rows]
        # Rows of a partition are together, and in the order of time.
        order = np.lexsort((starts, places))
        line = places[order] * SPAN_MS + (starts - base)[order]
        points, owners = [], []
        for name in ("first_time", "last_time"):
            at = commits.numbers(name) - base
            index = np.searchsorted(line, commit_places * SPAN_MS + at, side="right") - 1
            found = order[index]
            is_owner = (
                (index >= 0) & (places[found] == commit_places) & (at <= (ends - base)[found])
            )
            owners.append(np.where(is_owner, members[found], -1))
            points.append((owners[-1] * SPAN_MS + at)[is_owner])
        return cls(
            base, owned, starts - base, ends - base, places, members, rows,
            commit_places, commits.numbers("minute") - base, owners[-1],
            np.unique(np.concatenate(points)),
            (members * SPAN_MS + ends - base)[owned.numbers("until")[rows] == NONE],
            _usual(commit_places, commits.numbers("minute")), _samples(one["lag"], numbers, base),
            {
                row["member"]: row
                for row in one["sessions"].dicts(*_SESSIONS)
                if row["until"] is not None and row["silent_ms"]
            },
        )  # fmt: skip

    def gaps(self, least_ms: int, times: float) -> tuple[list[int], list[int]]:
        """On the members' lines: times without a commit in which a member owned something, that
        are long for one of its partitions.
        """
        usual = np.array([self.usual.get(each, SPAN_MS) for each in self.places.tolist()])
        shortest = np.full(int(self.members.max(initial=0)) + 1, SPAN_MS)
        np.minimum.at(shortest, self.members, usual)
        line = self.members * SPAN_MS
        begun, ended = joined_up(line + self.starts, line + self.ends + BREAK_MS)
        ended = ended - BREAK_MS
        every = np.unique(np.concatenate((begun, self.points, ended)))
        since, until = every[:-1], every[1:]
        span = np.searchsorted(begun, since, side="right") - 1
        found = (span >= 0) & (until <= ended[span]) & (until - since >= least_ms)
        found &= until - since >= times * shortest[since // SPAN_MS]
        return since[found].tolist(), until[found].tolist()

    def partitions(self, member: int, since: int, until: int) -> list[int]:
        is_in = (self.members == member) & (self.starts < until) & (self.ends > since)
        found: list[int] = np.unique(self.places[is_in]).tolist()
        return found

    def others(self, member: int, since: int, until: int) -> int:
        """Minutes in which another owner committed."""
        is_in = (self.commit_minutes >= since) & (self.commit_minutes < until)
        is_other = (self.commit_members != member) & (self.commit_members >= 0)
        return len(np.unique(self.commit_minutes[is_in & is_other]))

    def lag_before(self, place: int, time: int) -> int | None:
        """Records to read at the last sample up to a time; None: not known."""
        times, _, lags = self.samples.get(place, _NO_SAMPLES)
        index = int(np.searchsorted(times, time, side="right")) - 1
        return int(lags[index]) if index >= 0 else None

    def is_idle(self, place: int, since: int, until: int) -> bool:
        """There was nothing to read: all had been read before, and nothing came."""
        times, ends, _ = self.samples.get(place, _NO_SAMPLES)
        before = int(np.searchsorted(times, since, side="right")) - 1
        after = int(np.searchsorted(times, until, side="left"))
        if before < 0 or self.lag_before(place, since) != 0:
            return False
        return after >= len(times) or bool(ends[after] == ends[before])

    def ended(self, end: int) -> str:
        """How a silence ended; `end` is on the members' lines."""
        if np.isin(end, self.points):
            return COMMIT
        return LOG_END if np.isin(end, self.kept) else LOSS

    def end_of(self, member: int, since: int, until: int) -> Row:
        """`ended_by` and `session_timeout_ms` of one that sent nothing for most of the time: it was
        dead, and did not hang.
        """
        row = self.vanished.get(self.who(member)["member"])
        if row is None or abs(row["until"] - self.base - until) > BREAK_MS:
            return {"ended_by": None, "session_timeout_ms": None}
        is_dead = row["silent_ms"] >= (until - since) / 2
        return {
            "ended_by": row["ended_by"] if is_dead else None,
            "session_timeout_ms": row["session_timeout_ms"] if is_dead else None,
        }

    def who(self, member: int) -> Row:
        (index, *_) = self.rows[self.members == member].tolist()
        return {name: self.owned.column(name)[index].as_py() for name in _MEMBER}


_NOTHING: Final = np.zeros(0, dtype=np.int64)
_NO_SAMPLES: Final = (_NOTHING, _NOTHING, _NOTHING)


def _numbered(rows: Rows, numbers: dict[Key, int]) -> Numbers:
    """The number of the partition of each row; new ones get the next number."""
    codes, names = rows.codes(*_TP)
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)[
        codes
    ]


def _usual(places: Numbers, minutes: Numbers) -> dict[int, int]:
    bounds = starts_of(places)
    return {
        int(places[start]): int(np.median(np.diff(minutes[start:end])))
        for start, end in pairwise(bounds.tolist())
        if end - start >= 3
    }


def _samples(
    lag: Rows, numbers: dict[Key, int], base: int
) -> dict[int, tuple[Numbers, Numbers, Numbers]]:
    if not len(lag):
        return {}
    places = _numbered(lag, numbers)
    values = lag.numbers("time") - base, lag.numbers("end_offset"), lag.numbers("lag")
    is_known = values[2] != NONE
    found = {}
    for place in np.unique(places[is_known]).tolist():
        where = np.flatnonzero(is_known & (places == place))
        found[place] = (values[0][where], values[1][where], values[2][where])
    return found
