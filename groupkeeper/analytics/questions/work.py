"""How work is spread over members, and what moving it costs."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from groupkeeper.analytics.history.schemas import LONG, REAL, TEXT, TIME, YES, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import (
    FOLLOW_UP,
    GROUP,
    PLACE,
    SPAN_MS,
    evidence,
    is_timed,
    joined_up,
    largest,
    overlap,
    rank,
    started,
    starts_of,
    total,
)
from groupkeeper.analytics.questions.members import MEMBER
from groupkeeper.analytics.questions.rows import Numbers, Reach, Row, Rows

_SURE: Final = ("source", "confidence")
_HELD: Final = ("started", "ended", "held_ms", "join_ms", "partition", "offset", *_SURE)
_LAST: Final = ("last_member", "last_instance", "last_client_id", "last_host")


@question(
    "Who holds the join barrier",
    "All members wait in a rebalance until the last one has joined: these clients were last.",
    needs_events=True,
    reads={"rounds": (*_LAST, *_HELD)},
    columns=(
        GROUP,
        *MEMBER[:4],
        Column("last", LONG, "Rebalances in which it was the last of several to join."),
        Column("held", LONG, "Those in which the others waited for it for long."),
        Column("share", REAL, "`held` of the group's rebalances with several members, 0 to 1."),
        Column("held_ms", LONG, "Sum of the times after the one before it, in those."),
        Column("median_ms", LONG, "Of these times."),
        Column("longest_ms", LONG, "Of these times."),
        Column("longest_join_ms", LONG, "The longest of these join phases."),
        Column("from", TIME, "The first of them began."),
        Column("until", TIME, "The last of them began."),
        *PLACE,
    ),
)
def barrier(one: One, *, least_ms: int = 1_000) -> Iterator[Row]:
    """Per client that was last to join (instance id, or client id and address): how often it came
    at least `least_ms` after the one before it. The one member of a group waits for nobody.
    """
    clients: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    rows = [row for row in one["rounds"].dicts(*_LAST, *_HELD) if row["held_ms"] is not None]
    for row in rows:
        name = [row["last_instance"]] if row["last_instance"] else [row[each] for each in _LAST[2:]]
        name = name if any(name) else [row["last_member"]]
        clients[tuple(each or "" for each in name)].append(row)
    for _, some in sorted(clients.items()):
        held = [row for row in some if row["held_ms"] >= least_ms]
        if held:
            times = [started(row) for row in held if started(row) is not None]
            waits = [row["held_ms"] for row in held]
            yield {
                "group": one.key[0],
                **{name.removeprefix("last_"): some[-1][name] for name in _LAST},
                "last": len(some),
                "held": len(held),
                "share": len(held) / len(rows),
                "held_ms": sum(waits),
                "median_ms": rank(waits, 0.5),
                "longest_ms": max(waits),
                "longest_join_ms": largest(row["join_ms"] for row in held),
                "from": min(times, default=None),
                "until": max(times, default=None),
                **evidence(held),
                **surest(*held),
            }


_OWNED: Final = (
    *("topic", "topic_partition", "from", "until", "member", "is_owned", "partition", *_SURE),
)
_SESSIONS: Final = (
    *("member", "instance", "client_id", "host", "software", "from", "until", "ended_by"),
    *("partition", "offset", *_SURE),
)


@question(
    "Members with nothing to do",
    "Members that own no partition: more consumers than partitions, or other topics.",
    reads={"sessions": _SESSIONS, "ownership": _OWNED},
    columns=(
        GROUP,
        *MEMBER,
        Column("from", TIME, "Beginning of its longest time without a partition."),
        Column("until", TIME, "End of that time."),
        Column("idle_ms", LONG, "All such times of at least `least_ms`."),
        Column("member_ms", LONG, "How long it was a member, as far as it was read."),
        Column("share", REAL, "`idle_ms` of that, 0 to 1."),
        *PLACE,
    ),
)
def idle_members(one: One, *, least_ms: int = 300_000) -> Iterator[Row]:
    """Per session: the times in which the member owned nothing while others in the group owned
    something, if one such time is at least `least_ms` long; times in which nobody owned anything
    neither count nor interrupt it.
    """
    owned, rows = one["ownership"], _timed(one["sessions"])
    until = one.reach.until or 0
    is_owned = _is_owned(owned)
    if not rows or not is_owned.any():
        return
    starts = owned.numbers("from")[is_owned]
    ends = np.maximum(starts, owned.numbers("until", until)[is_owned])
    lives = _lives(rows, one.reach, until)
    whose = _sessions_of(
        rows, lives, [*owned.column("member").filter(is_owned).to_pylist()], starts
    )
    gaps = _gaps(lives, whose, starts, ends)
    idle = overlap(gaps[1], gaps[2], joined_up(starts, ends))
    is_long = idle >= least_ms
    sure = owned.sure()
    for session, where in _by_session(gaps[0][is_long], np.flatnonzero(is_long)):
        row, (since, end) = rows[session], lives[session].tolist()
        longest, idle_ms = int(where[np.argmax(idle[where])]), int(idle[where].sum())
        yield {
            "group": one.key[0],
            **{each.name: row[each.name] for each in MEMBER},
            "from": int(gaps[1][longest]),
            "until": int(gaps[2][longest]),
            "idle_ms": idle_ms,
            "member_ms": end - since,
            "share": idle_ms / (end - since),
            **evidence([row]),
            **surest(row, sure),
        }


def _timed(sessions: Rows) -> list[Row]:
    """Without those that ended at a time that is not known."""
    return [row for row in sessions.dicts(*_SESSIONS) if is_timed(row)]


def _is_owned(owned: Rows) -> np.typing.NDArray[np.bool_]:
    return np.asarray(owned.column("is_owned").cast("int64").fill_null(0)).astype(bool)


def _lives(rows: list[Row], reach: Reach, until: int) -> Numbers:
    """From when to when each session was, as far as it was read."""
    found = np.zeros((len(rows), 2), dtype=np.int64)
    for index, row in enumerate(rows):
        end = until if row["until"] is None else row["until"]
        since = row["from"] if row["from"] is not None else reach.since
        since = end if since is None else max(since, reach.known_from or since)
        found[index] = min(since, end), end
    return found


def _sessions_of(rows: list[Row], lives: Numbers, members: list[str], starts: Numbers) -> Numbers:
    """The session in which a member got a partition; -1 if none is known."""
    codes: dict[str, int] = {}
    own = np.array([codes.setdefault(row["member"], len(codes)) for row in rows], dtype=np.int64)
    wanted = np.array([codes.get(member, -1) for member in members], dtype=np.int64)
    base = min(int(lives.min()), int(starts.min()))
    line = own * SPAN_MS + lives[:, 0] - base
    order = np.argsort(line, kind="stable")
    # One that was there before its session was read belongs to the first.
    index = np.searchsorted(line[order], wanted * SPAN_MS + starts - base, side="right") - 1
    index = np.maximum(index, np.searchsorted(own[order], wanted, side="left"))
    found = order[np.minimum(index, len(order) - 1)]
    return np.where((wanted >= 0) & (own[found] == wanted), found, -1)


def _gaps(
    lives: Numbers, whose: Numbers, starts: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Session, beginning and end of each time in which a session owned nothing."""
    base = int(lives.min())
    lines = np.arange(len(lives)) * SPAN_MS
    since, until = lines + lives[:, 0] - base, lines + lives[:, 1] - base
    known = whose >= 0
    line, life = lines[whose[known]], lives[whose[known]]
    first = line + np.clip(starts[known], life[:, 0], life[:, 1]) - base
    last = line + np.clip(ends[known], life[:, 0], life[:, 1]) - base
    owned = joined_up(first, last)
    # On each line: it joined, <= a beginning <= its end <= ... <= it was gone.
    begun = np.sort(np.concatenate((since, owned[1])))
    ended = np.sort(np.concatenate((owned[0], until)))
    return begun // SPAN_MS, begun % SPAN_MS + base, ended % SPAN_MS + base


def _by_session(sessions: Numbers, where: Numbers) -> Iterator[tuple[int, Numbers]]:
    for start, end in pairwise(starts_of(sessions).tolist()):
        yield int(sessions[start]), where[start:end]


@question(
    "Skew",
    "Members with more partitions than their share: they fall behind first.",
    reads={"sessions": _SESSIONS, "ownership": _OWNED},
    columns=(
        GROUP,
        *MEMBER,
        Column("from", TIME, "When it joined, as far as it was read."),
        Column("until", TIME, "When it was gone, or the end of what was read."),
        Column("member_ms", LONG, "How long it was a member, as far as it was read."),
        Column("partitions", REAL, "That it owned, as a mean over this time."),
        Column("fair", REAL, "That it had owned if members had shared alike at all times."),
        Column("ratio", REAL, "`partitions` to `fair`: 2 is twice its share, 0 is nothing."),
        *PLACE,
    ),
)
def skew(one: One, *, least_ms: int = 600_000) -> Iterator[Row]:
    """Per session of at least `least_ms`: the mean number of partitions that the member owned, and
    the same if at each moment all owned partitions were shared alike by the members of that moment.
    """
    owned, rows = one["ownership"], _timed(one["sessions"])
    until = one.reach.until or 0
    is_owned = _is_owned(owned)
    if not rows or not is_owned.any():
        return
    starts = owned.numbers("from")[is_owned]
    ends = np.maximum(starts, owned.numbers("until", until)[is_owned])
    codes, names = owned.codes("member")
    sums = np.bincount(codes[is_owned], weights=ends - starts, minlength=len(names))
    had = {name[0]: value for name, value in zip(names, sums.tolist(), strict=True)}
    lives = _lives(rows, one.reach, until)
    sure = owned.sure()
    fair = _fair(lives, starts, ends)
    for row, (since, end), share in zip(rows, lives.tolist(), fair.tolist(), strict=True):
        if end - since >= least_ms and share > 0:
            yield {
                "group": one.key[0],
                **{each.name: row[each.name] for each in MEMBER},
                "from": since,
                "until": end,
                "member_ms": end - since,
                "partitions": had.get(row["member"], 0.0) / (end - since),
                "fair": share / (end - since),
                "ratio": had.get(row["member"], 0.0) / share,
                **evidence([row]),
                **surest(row, sure),
            }


def _fair(lives: Numbers, starts: Numbers, ends: Numbers) -> np.typing.NDArray[np.float64]:
    """Partition-milliseconds of each life: the integral of owned partitions by members."""
    times, steps = np.unique(np.concatenate((lives.ravel(), starts, ends)), return_inverse=True)
    changes = np.zeros((2, len(times)))
    lived, count = steps[: lives.size].reshape(-1, 2), len(starts)
    owned = steps[lives.size :]
    np.add.at(changes[0], lived[:, 0], 1)
    np.add.at(changes[0], lived[:, 1], -1)
    np.add.at(changes[1], owned[:count], 1)
    np.add.at(changes[1], owned[count:], -1)
    members, partitions = np.cumsum(changes, axis=1)
    rate = np.where(members > 0.5, partitions / np.maximum(members, 1), 0)
    whole = np.concatenate(([0], np.cumsum(rate[:-1] * np.diff(times))))
    found: np.typing.NDArray[np.float64] = whole[lived[:, 1]] - whole[lived[:, 0]]
    return found


_MOVES: Final = (
    *("protocol", "is_cooperative", "outcome", "cause", "started", "ended", "moved"),
    *("partitions", "duration_ms", "unowned_ms", "partition", *_SURE),
)


@question(
    "Cooperative or eager",
    "What one change of members costs: eager groups take every partition away each time.",
    reads={"rounds": _MOVES},
    columns=(
        GROUP,
        Column("protocol", TEXT, "Elected protocol: the assignor."),
        Column("is_cooperative", YES, "Members kept partitions meanwhile; null: unknown."),
        Column("from", TIME, "The first of them began."),
        Column("until", TIME, "The last of them began."),
        Column("rounds", LONG, "Completed rebalances."),
        Column("changes", LONG, "Those that began with a change, and not as the second of one."),
        Column("rounds_per_change", REAL, "Null without a change."),
        Column("moved", LONG, "Partitions that got another owner; null: not known."),
        Column("moved_share", REAL, "Of the partitions in these rebalances, 0 to 1."),
        Column("median_ms", LONG, "Of their durations."),
        Column("unowned_ms", LONG, "Sum over partitions of the time without an owner."),
        Column("unowned_ms_per_change", REAL, "The same for each change."),
    ),
)
def cooperative_or_eager(one: One) -> Iterator[Row]:
    """Per group and assignor: its completed rebalances. A rebalance whose cause is
    `member_rejoined` is the second of a cooperative change, not a change of its own.
    """
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in one["rounds"].dicts(*_MOVES):
        if row["outcome"] == "completed" and row["protocol"]:
            found[row["protocol"], str(row["is_cooperative"])].append(row)
    for _, rows in sorted(found.items()):
        changes = sum(row["cause"] != FOLLOW_UP for row in rows)
        counted = [row for row in rows if row["moved"] is not None and row["partitions"]]
        partitions = sum(row["partitions"] for row in counted)
        unowned = total(row["unowned_ms"] for row in rows)
        yield {
            "group": one.key[0],
            "protocol": rows[0]["protocol"],
            "is_cooperative": rows[0]["is_cooperative"],
            "from": min((started(row) for row in rows if started(row) is not None), default=None),
            "until": max((started(row) for row in rows if started(row) is not None), default=None),
            "rounds": len(rows),
            "changes": changes,
            "rounds_per_change": len(rows) / changes if changes else None,
            "moved": total(row["moved"] for row in rows),
            "moved_share": sum(row["moved"] for row in counted) / partitions
            if partitions
            else None,
            "median_ms": rank((row["duration_ms"] for row in rows), 0.5),
            "unowned_ms": unowned,
            "unowned_ms_per_change": unowned / changes if changes and unowned is not None else None,
            **surest(*rows),
        }
