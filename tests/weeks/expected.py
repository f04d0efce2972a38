"""What the questions have to answer, worked out from the truth in the plainest way.

Each function takes the tables of the truth and returns rows: what tells one from another, and the
numbers that have to agree. Definitions are those of the questions; nothing of their code is used.
Times are Unix milliseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

Row = dict[str, Any]
Truth = dict[str, list[Row]]
Expected = Callable[[Truth], list[Row]]

MAYBE: Final = "maybe"
"""True in rows that may be answered and need not: definitions have limits, and these are near."""
ONE_OF: Final = "one_of"
"""Rows with the same value are about one thing: one of them has to be answered, and no second."""
FOREVER: Final = 1 << 62
ON_THE_WAY_MS: Final = 5
"""Members are told of a new assignment one after the other, some milliseconds apart."""
IDLE_MS: Final = 300_000
NEAR_MS: Final = 30_000
"""Members give up partitions some seconds after the coordinator has told them to."""
RETURN_MS: Final = 900_000
OUTAGE_MS: Final = 600_000
SCALED_MS: Final = 120_000
SLACK_MS: Final = 1000
WITHIN_MS: Final = 600_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
COMMITS: Final = ("OffsetCommit",)
SILENT: Final = ("silent_owner", "nearly_silent")


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"]].append(row)
    return found


def crowded(times: Sequence[int], least: int, within_ms: int) -> Iterator[list[int]]:
    """Indices of times that are among `least` within so long, together while those overlap."""
    run: list[int] = []
    for first in range(len(times) - least + 1):
        last = first + least - 1
        if times[last] - times[first] <= within_ms:
            if run and first > run[-1]:
                yield run
                run = []
            run = [*range(run[0] if run else first, last + 1)]
    if run:
        yield run


def _bounds(run: list[int], times: Sequence[int]) -> Row:
    return {"from": times[run[0]], "until": times[run[-1]], "count": len(run)}


# -- rebalances ----------------------------------------------------------------------------------


def rounds(truth: Truth) -> list[Row]:
    return [
        {
            "group": row["group"],
            "from": row["started_ms"],
            "cause": row["cause"],
            "client_id": row["by_client_id"],
            "host": row["by_host"],
            "outcome": row["outcome"],
            "members": row["members"] if row["outcome"] == "completed" else None,
            "generation": row["generation"] if row["outcome"] == "completed" else None,
            "duration_ms": row["ended_ms"] - row["started_ms"] if row["ended_ms"] else None,
        }
        for row in truth["rounds"]
    ]


def completed(truth: Truth) -> list[Row]:
    """What a log without events has a record of."""
    return [
        {
            "group": row["group"],
            "generation": row["generation"],
            "until": row["ended_ms"],
            "cause": row["cause"],
        }
        for row in truth["rounds"]
        if row["outcome"] == "completed"
    ]


def _seen(truth: Truth) -> dict[str, tuple[int, int]]:
    """Group -> its first rebalance, and the end of its shard."""
    ends, rounds = _ends(truth), by_group(truth["rounds"])
    return {
        group: (min(row["started_ms"] for row in rows), ends[group])
        for group, rows in rounds.items()
    }


def rebalance_rate(truth: Truth) -> list[Row]:
    counts = Counter(row["group"] for row in truth["rounds"])
    completed = Counter(row["group"] for row in truth["rounds"] if row["outcome"] == "completed")
    return [
        {
            "group": group,
            "rounds": counts[group],
            "completed": completed[group],
            "from": since,
            "until": until,
            "per_day": counts[group] * DAY_MS / (until - since),
        }
        for group, (since, until) in _seen(truth).items()
    ]


def timeline(truth: Truth) -> list[Row]:
    counts = Counter(
        (row["group"], row["started_ms"] // HOUR_MS * HOUR_MS, row["cause"])
        for row in truth["rounds"]
    )
    return [
        {"group": group, "from": hour, "cause": cause, "rounds": count}
        for (group, hour, cause), count in counts.items()
    ]


def _causes(truth: Truth, column: str, name: str) -> list[Row]:
    counts = Counter((row[column] or None, row["cause"]) for row in truth["rounds"])
    return [{name: key, "cause": cause, "rounds": n} for (key, cause), n in counts.items()]


def causes(truth: Truth) -> list[Row]:
    return _causes(truth, "group", "group")


def causes_by_software(truth: Truth) -> list[Row]:
    return _causes(truth, "by_software", "software")


def causes_by_host(truth: Truth) -> list[Row]:
    return _causes(truth, "by_host", "host")


def storms(truth: Truth) -> list[Row]:
    found = []
    for group, rows in by_group(truth["rounds"]).items():
        times = sorted(row["started_ms"] for row in rows)
        found += [{"group": group, **_bounds(run, times)} for run in crowded(times, 5, WITHIN_MS)]
    return found


def cooperative_or_eager(truth: Truth) -> list[Row]:
    assignors = {row["group"]: row["assignor"] for row in truth["groups"]}
    found = []
    for group, rows in by_group(truth["rounds"]).items():
        done = [row for row in rows if row["outcome"] == "completed"]
        changes = sum(row["cause"] != "member_rejoined" for row in done)
        if done:
            found.append(
                {
                    "group": group,
                    "protocol": assignors[group],
                    "rounds": len(done),
                    "changes": changes,
                }
            )
    return found


def not_stable(truth: Truth) -> list[Row]:
    """Partitions that nobody consumed; a dead member owns its own until its session ends."""
    gaps, seen = _gaps(truth), _seen(truth)
    lasted = {
        group: sum(
            row["ended_ms"] - row["started_ms"] for row in rows if row["outcome"] == "completed"
        )
        for group, rows in by_group(truth["rounds"]).items()
    }
    return [
        {
            "group": group,
            "unowned_s": gaps[group] / 1000,
            "not_stable_ms": ms,
            "share": ms / (seen[group][1] - seen[group][0]),
        }
        for group, ms in lasted.items()
    ]


def _gaps(truth: Truth) -> Counter[str]:
    """Group -> sum over partitions of the time between two owners, while the group existed."""
    spans = defaultdict(list)
    for row, until in _owned(truth):
        spans[row["group"], row["partition"]].append((row["from_ms"], until))
    deleted = {
        group: [row["at_ms"] for row in rows]
        for group, rows in by_group(truth["deletions"]).items()
    }
    gaps: Counter[str] = Counter()
    for (group, _), some in spans.items():
        some.sort()
        newest = some[0][0]
        for start, end in some:
            if start > newest + ON_THE_WAY_MS and not any(
                newest <= at <= start for at in deleted.get(group, [])
            ):
                gaps[group] += start - newest
            newest = max(newest, end)
    return gaps


def barrier(truth: Truth) -> list[Row]:
    """Some milliseconds are spent on the way: of those about the limit both is right."""
    held: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in truth["rounds"]:
        if row["held_ms"] is not None and row["held_ms"] >= 980:
            held[row["group"], row["last_client_id"]].append(row["held_ms"])
    found = []
    for (group, client_id), each in held.items():
        each.sort(reverse=True)
        sure = sum(ms > 1020 for ms in each)
        row = {"group": group, "client_id": client_id, ONE_OF: (group, client_id), MAYBE: not sure}
        found += [
            {**row, "held": count, "held_ms": sum(each[:count])}
            for count in range(max(1, sure), len(each) + 1)
        ]
    return found


# -- members -------------------------------------------------------------------------------------


def _identity(row: Row) -> tuple[str, ...]:
    return (row["instance"],) if row["instance"] else (row["client_id"], row["host"])


def flapping(truth: Truth) -> list[Row]:
    clients: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    last: dict[tuple[str, tuple[str, ...]], Row] = {}
    for row in truth["sessions"]:
        key = row["group"], _identity(row)
        clients[key].append(row["from_ms"])
        if row["until_ms"] is not None and row["how"] != "replaced":
            clients[key].append(row["until_ms"])
        last[key] = row
    return [
        {"group": key[0], "client_id": last[key]["client_id"], **_bounds(run, sorted(times))}
        for key, times in clients.items()
        for run in crowded(sorted(times), 6, WITHIN_MS)
    ]


def _returns(truth: Truth) -> Iterator[tuple[Row, Row, int]]:
    """Session, the one of the same client before it, and how long it was gone."""
    last: dict[tuple[str, tuple[str, ...]], Row] = {}
    for row in sorted(truth["sessions"], key=lambda row: int(row["from_ms"])):
        key = row["group"], _identity(row)
        before = last.get(key)
        last[key] = row
        if before is not None and before["heard_ms"] is not None:
            yield row, before, row["from_ms"] - before["heard_ms"]


def restarts(truth: Truth) -> list[Row]:
    """Clients that came back within a quarter of an hour. Of two at once, the older may have sent
    its last request when the other had joined, and when it sent the one before is not noted.
    """
    return [
        {
            "group": row["group"],
            "member": row["member"],
            "away_ms": away_ms if away_ms >= 0 else None,
            MAYBE: away_ms > RETURN_MS - SLACK_MS,
        }
        for row, _, away_ms in _returns(truth)
        if away_ms <= RETURN_MS + SLACK_MS
    ]


def restart_gaps(truth: Truth) -> list[Row]:
    """How long clients were away that came back. One that was away for as long as an outage, or as
    long as it is remembered, may be counted or not. One that had left, or was removed, and came
    back after minutes may have been scaled: it is no restart.
    """
    away: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for row, before, away_ms in _returns(truth):
        is_clear = away_ms < SCALED_MS or before.get("how") not in ("left", "removed")
        if is_clear or away_ms > OUTAGE_MS + SLACK_MS:
            away[row["group"]].append((away_ms, bool(row["instance"])))
    sessions = {row["group"]: row["session_ms"] for row in truth["groups"]}
    found = []
    for group, each in away.items():
        some = [
            _gaps_of(each, OUTAGE_MS + more, RETURN_MS + most)
            for more in (-SLACK_MS, SLACK_MS)
            for most in (-SLACK_MS, SLACK_MS)
        ]
        is_sure = all(row["restarts"] for row in some)
        more = {"group": group, "session_timeout_ms": sessions[group], MAYBE: not is_sure}
        found += [{**row, **more, ONE_OF: group} for row in some if row["restarts"]]
    return found


def _gaps_of(away: list[tuple[int, bool]], outage_ms: int, return_ms: int) -> Row:
    """Times that are negative are not known, and short."""
    short = sorted(each for each in away if each[0] <= outage_ms)
    times, known = [ms for ms, _ in short], all(ms >= 0 for ms, _ in short)
    return {
        "restarts": len(short),
        "outages": sum(outage_ms < ms <= return_ms for ms, _ in away),
        "static": sum(is_static for _, is_static in short),
        "median_ms": times[(len(times) - 1) // 2] if times and known else None,
        "p95_ms": times[-(-95 * len(times) // 100) - 1] if times and known else None,
        "longest_ms": times[-1] if times and times[-1] >= 0 else None,
    }


def inferred_restarts(truth: Truth) -> list[Row]:
    """The same without events: who has not committed since the last rebalance may be overlooked,
    and so may who was gone for longer.
    """
    ends = {
        group: [row["ended_ms"] or 0 for row in rows]
        for group, rows in by_group(truth["rounds"]).items()
    }
    found = []
    for row, before, _ in _returns(truth):
        last_ms, until_ms = before["last_commit_ms"], before["until_ms"] or row["from_ms"]
        is_known = (
            last_ms is not None
            and row["from_ms"] - last_ms < RETURN_MS - SLACK_MS
            and not any(last_ms < end < until_ms for end in ends[row["group"]])
        )
        found.append({"group": row["group"], "member": row["member"], MAYBE: not is_known})
    return found


def _stale(truth: Truth) -> dict[tuple[str, str], list[Row]]:
    """Refusals under a member id after its session ended."""
    ends = {
        (row["group"], row["member"]): row["until_ms"]
        for row in truth["sessions"]
        if row["until_ms"] is not None
    }
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in truth["refusals"]:
        end = ends.get((row["group"], row["member"]))
        if end is not None and row["at_ms"] >= end:
            found[row["group"], row["member"]].append(row)
    return found


def zombies(truth: Truth) -> list[Row]:
    return [
        {
            "group": group,
            "member": member,
            "refused": len(rows),
            "refused_commits": sum(row["api"] in COMMITS for row in rows),
        }
        for (group, member), rows in _stale(truth).items()
    ]


def refused_commits(truth: Truth) -> list[Row]:
    counts = Counter(
        (row["group"], row["member"]) for row in truth["refusals"] if row["api"] in COMMITS
    )
    return [{"group": g, "member": m, "refused": count} for (g, m), count in counts.items()]


def duels(truth: Truth) -> list[Row]:
    instances: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in truth["replacements"]:
        instances[row["group"], row["instance"]].append(row)
    hosts = {(row["group"], row["member"]): row["host"] for row in truth["sessions"]}
    found = []
    for (group, instance), rows in instances.items():
        run: list[Row] = []
        for row in [*rows, {"at_ms": FOREVER, "old_member": ""}]:
            if run and row["at_ms"] - run[-1]["at_ms"] > 30_000:
                if _is_duel([hosts[group, run[0]["old_member"]], *(one["host"] for one in run)]):
                    found.append(
                        {
                            "group": group,
                            "instance": instance,
                            "from": run[0]["at_ms"],
                            "replacements": len(run),
                        }
                    )
                run = []
            run.append(row)
    return found


def _is_duel(hosts: list[str]) -> bool:
    """The id goes back to the host that had it before the last one."""
    return any(a == c != b for a, b, c in zip(hosts, hosts[1:], hosts[2:], strict=False))


def _lives(truth: Truth) -> list[tuple[Row, int, int]]:
    until = _ends(truth)
    return [
        (row, row["from_ms"], row["until_ms"] or until[row["group"]]) for row in truth["sessions"]
    ]


def _ends(truth: Truth) -> dict[str, int]:
    """Group -> the end of its shard: one may go on for longer than another."""
    last: Counter[int] = Counter()
    for row in truth["coordinators"]:
        last[row["shard"]] = max(last[row["shard"]], row["until_ms"])
    return {row["group"]: last[row["partition"] % len(last)] for row in truth["groups"]}


def idle_members(truth: Truth) -> list[Row]:
    """A member that was never given a partition for five minutes, while others had some."""
    owned = _held(truth)
    found = []
    for row, start, end in _lives(truth):
        others = [
            span for (group, _), spans in owned.items() if group == row["group"] for span in spans
        ]
        idle = _without(start, end, owned[row["group"], row["member"]])
        lengths = [_covered(one, others) for one in idle]
        is_near = any(abs(length - IDLE_MS) < NEAR_MS for length in lengths)
        idle_ms = sum(length for length in lengths if length >= IDLE_MS)
        if idle_ms or is_near:
            found.append(
                {
                    "group": row["group"],
                    "member": row["member"],
                    "idle_ms": None if is_near else idle_ms,
                    MAYBE: is_near,
                }
            )
    return found


def skew(truth: Truth) -> list[Row]:
    """What each member had, by what it would have had if all had shared alike at each moment."""
    held = _held(truth)
    lived = defaultdict(list)
    for row, start, end in _lives(truth):
        lived[row["group"]].append((row["member"], start, end))
    found = []
    for group, lives in lived.items():
        steps = [(start, end, member, 1, 0) for member, start, end in lives]
        steps += [
            (start, end, member, 0, 1) for member, *_ in lives for start, end in held[group, member]
        ]
        had, fair = _shares(steps)
        found += [
            {
                "group": group,
                "member": member,
                "ratio": had[member] / fair[member],
                MAYBE: end - start < WITHIN_MS + SLACK_MS,
            }
            for member, start, end in lives
            if end - start > WITHIN_MS - SLACK_MS and fair[member]
        ]
    return found


def _shares(
    steps: list[tuple[int, int, str, int, int]],
) -> tuple[Counter[str], defaultdict[str, float]]:
    """Partition-milliseconds of members, really and if shared alike. A step is from when to when a
    member was there (1, 0), or owned a partition (0, 1).
    """
    changes = [(start, 1, *rest) for start, _, *rest in steps]
    changes += [(end, -1, *rest) for _, end, *rest in steps]
    had: Counter[str] = Counter()
    fair: defaultdict[str, float] = defaultdict(float)
    there: Counter[str] = Counter()
    owned = before = 0
    for at, sign, member, is_life, is_owner in sorted(changes):
        for each in there:
            fair[each] += (at - before) * owned / len(there)
        before = at
        owned += sign * is_owner
        had[member] -= sign * is_owner * at
        there[member] += sign * is_life
        if not there[member]:
            del there[member]
    return had, fair


def _held(truth: Truth) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """When each member owned something."""
    owned: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    until = _ends(truth)
    for row, end in _owned(truth):
        span = row["from_ms"], min(end, until[row["group"]])
        owned[row["group"], row["member"]].append(span)
    return owned


def _owned(truth: Truth) -> Iterator[tuple[Row, int]]:
    """Ownership and its end, or FOREVER: what a member had when it died, until its session ends."""
    deaths = {
        (row["group"], row["member"]): (row["heard_ms"], row["until_ms"])
        for row in truth["sessions"]
        if row["how"] not in (None, "left")
    }
    for row in truth["ownership"]:
        heard, gone = deaths.get((row["group"], row["member"]), (FOREVER, FOREVER))
        end = row["until_ms"] or FOREVER
        yield row, gone if end >= heard else end


def _without(start: int, end: int, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What spans leave of a time."""
    left = []
    for low, high in sorted(spans):
        if low >= end:
            break
        if low > start:
            left.append((start, low))
        start = max(start, high)
    if start < end:
        left.append((start, end))
    return left


def _covered(span: tuple[int, int], others: list[tuple[int, int]]) -> int:
    uncovered = sum(high - low for low, high in _without(*span, others))
    return span[1] - span[0] - uncovered


# -- commits -------------------------------------------------------------------------------------


def commit_rhythm(truth: Truth) -> list[Row]:
    counts: Counter[tuple[str, int]] = Counter()
    for row in truth["commits"]:
        counts[row["group"], row["partition"]] += row["commits"] + row["quiet"]
    return [{"group": g, "partition": p, "commits": n} for (g, p), n in counts.items() if n]


def commit_silence(truth: Truth) -> list[Row]:
    """Planted ones that are long for how often the group commits, with the commits that were added
    to quiet times; and members that were dead for long before their session expired.
    """
    usual = _usual(truth)
    found = [
        {
            "group": row["group"],
            "client_id": row["client_id"],
            "from": row["last_commit_ms"],
            "until": row["until_ms"],
            MAYBE: not _is_sure(truth, row, usual[row["group"]][0]),
        }
        for row in truth["sessions"]
        if row["how"] == "crashed"
        and row["last_commit_ms"] is not None
        and row["until_ms"] - row["last_commit_ms"] >= WITHIN_MS - SLACK_MS
    ]
    for row in truth["incidents"]:
        if row["kind"] not in SILENT:
            continue
        apart_ms, real_ms = usual[row["group"]]
        least_ms = max(WITHIN_MS, 5 * apart_ms)
        # From one commit to another: it may be longer than what was planted by one at each end.
        if row["until_ms"] - row["from_ms"] + 2 * real_ms >= least_ms:
            is_sure = row["until_ms"] - row["from_ms"] >= least_ms and apart_ms <= MINUTE_MS
            found.append(
                {
                    "group": row["group"],
                    "client_id": row["subject"],
                    "from": row["from_ms"],
                    "until": row["until_ms"],
                    MAYBE: not is_sure,  # others may have commits in less than half of its minutes
                }
            )
    return found


def _is_sure(truth: Truth, dead: Row, apart_ms: float) -> bool:
    """It owned something from its last commit until it died, and so did another one, which made
    commits every minute, until its session expired.
    """
    low, high = dead["last_commit_ms"], dead["until_ms"]
    silent = [
        row
        for row in truth["incidents"]
        if row["group"] == dead["group"] and row["kind"] in SILENT
        if row["from_ms"] < high and (row["until_ms"] or FOREVER) > low
    ]
    owners = {
        row["member"]
        for row, until in _owned(truth)
        if row["group"] == dead["group"] and row["from_ms"] <= low and until >= high
    }
    is_long = high - low >= WITHIN_MS + SLACK_MS and apart_ms <= MINUTE_MS
    return is_long and not silent and dead["member"] in owners and len(owners - _dead(truth)) > 0


def _dead(truth: Truth) -> set[str]:
    return {row["member"] for row in truth["sessions"] if row["how"] == "crashed"}


def _usual(truth: Truth) -> dict[str, tuple[float, float]]:
    """Group -> milliseconds between two commits of a partition, and between two of a process."""
    real, every = Counter[str](), Counter[str]()
    for row in truth["commits"]:
        real[row["group"]] += row["commits"]
        every[row["group"]] += row["commits"] + row["quiet"]
    return {
        row["group"]: (
            row["commit_s"] * 1000 * real[row["group"]] / max(1, every[row["group"]]),
            row["commit_s"] * 1000,
        )
        for row in truth["groups"]
    }


def rhythm_steps(truth: Truth) -> list[Row]:
    """Planted ones, and groups that went away and came back. Hours at the new rate have to follow:
    the one with the step, two whole ones, and the last one, which is not whole.
    """
    partitions = {row["group"]: row["partitions"] for row in truth["groups"]}
    ends = _ends(truth)
    return [
        {
            "group": row["group"],
            "partition": partition,
            "from": at_ms,
            MAYBE: row["kind"] == "goes_away" or ends[row["group"]] - at_ms < 4 * HOUR_MS,
        }
        for row in truth["incidents"]
        if row["kind"] in ("rhythm", "goes_away")
        for partition in range(partitions[row["group"]])
        for at_ms in (row["from_ms"], row["until_ms"])
    ]


def split_brain(truth: Truth) -> list[Row]:
    """Never."""
    return []
