"""Measure how sure causes are that a log alone tells: those of weeks whose causes events tell.

    python -m tests.analytics.precision --days 5 --every 15

The table is that of docs/analytics.md. A cause counts as wrong where another one was inferred.
"""

import argparse
import sys
from collections import Counter

from groupkeeper.history.records import CommitRun
from groupkeeper.history.rounds import Folding, Round
from groupkeeper.history.rows import Row
from groupkeeper.protocol.group_events import Event
from tests.analytics.churn import churn
from tests.analytics.folded import fed, parsed, rows_of

UNKNOWN = "unknown"


def true_rounds(events: list[Event]) -> dict[tuple[str, int], Round]:
    """Group and generation -> the round, as the stored events tell it."""
    found: dict[tuple[str, int], Round] = {}
    foldings: dict[str, Folding] = {}
    for event in events:
        if event.group is not None:
            for entry in foldings.setdefault(event.group, Folding()).add(event):
                if isinstance(entry, Round):
                    found[entry.group, entry.generation] = entry
    return found


def true_ends(events: list[Event]) -> dict[tuple[str, str], str]:
    """Group and member id -> why the session ended, as the stored events tell it."""
    found = {
        (event.group or "", event.fields["who"]["member"]): event.fields["cause"]["code"]
        for event in events
        if event.type == "member_removed"
    }
    return found | {
        (event.group or "", event.fields["old_member"]): "replaced"
        for event in events
        if event.type == "member_replaced" and event.fields["quick"]
    }


def table(pairs: list[tuple[str, str]]) -> str:
    """The rows of the table: pairs of the true cause and the one that was inferred."""
    known = [(told, got) for told, got in pairs if told != UNKNOWN]
    right = Counter(told for told, got in known if told == got)
    missed = Counter(told for told, got in known if told != got)
    wrong = Counter(got for told, got in known if got not in (told, UNKNOWN))
    lines = []
    for code in sorted({*right, *missed, *wrong}):
        is_, not_, lost = right[code], wrong[code], missed[code]
        precision = f"{is_ / (is_ + not_):.2f}" if is_ + not_ else ""
        recall = f"{is_ / (is_ + lost):.2f}" if is_ + lost else ""
        lines.append(f"| {code} | {is_} | {not_} | {lost} | {precision} | {recall} |")
    return "\n".join(lines)


def ends_text(ended: list[Row], truth: dict[tuple[str, str], str]) -> str:
    """Count the ends of sessions that were told wrongly, or not at all."""
    told = [row for row in ended if row["ended_by"] != UNKNOWN]
    wrong = sum(truth.get((row["group"], row["member"])) != row["ended_by"] for row in told)
    return f"{len(ended)} ends of sessions: {wrong} wrong, {len(ended) - len(told)} not told"


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.analytics.precision",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--days", type=float, default=5, help="how long (%(default)s)")
    parser.add_argument(
        "--every", type=float, default=15, help="seconds between commits (%(default)s)"
    )
    options = parser.parse_args(arguments)
    data, events = churn(options.days, (30, 60, 300, 600), options.every)
    truth = true_rounds(events)
    items = [*fed(parsed(data))]
    rows = rows_of(items)
    found = {(row["group"], row["generation"]): row["cause"] for row in rows["rounds"]}
    pairs = [((each.cause or {})["code"], found[key]) for key, each in truth.items()]
    print(f"{len(pairs)} rounds, {sum(told != UNKNOWN for told, _ in pairs)} with a known cause")
    print(table(pairs))
    ends = true_ends(events)
    print(ends_text([row for row in rows["sessions"] if row["until"]], ends))
    rows = rows_of([each for each in items if not isinstance(each, CommitRun)])
    quiet = ends_text([row for row in rows["sessions"] if row["until"]], ends)
    print(f"without the commits {quiet}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
