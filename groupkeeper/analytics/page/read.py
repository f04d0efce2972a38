"""What was read: how much, from when to when, how sure, and what is wrong with it."""

from typing import Final

from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.page.about import About
from groupkeeper.analytics.page.data import Data, Row
from groupkeeper.analytics.page.markup import Child, Html, joined, name, tag
from groupkeeper.analytics.page.times import DAY, HOUR, count, day_time, length, share
from groupkeeper.analytics.render import size

PATHS: Final = 12
"""More paths than these are counted; the same for damage."""


def tiles(data: Data, findings: list[Row]) -> Html:
    """The whole in a few numbers."""
    groups, days = data.groups, max(data.span.ms, HOUR) / DAY
    total = sum(len(each.rounds) for each in groups)
    timed = [each for each in groups if each.is_timed]
    lost = sum(each.not_stable_ms for each in timed)
    unowned = sum(each.unowned_ms for each in groups)
    worst = sum(row["severity"] in ("critical", "high") for row in findings)
    found = f"{count(worst)} of them high" if worst else "by severity, the worst first"
    per_day = _rate(total, len(groups) * days)
    shown = [
        _tile(len(groups), "group", "groups", " with rebalances"),
        _tile(total, "rebalance", "rebalances", f", {per_day} a group and day"),
        _tile(length(lost), f"not stable, {share(lost, len(timed) * data.span.ms)} of the time")
        if timed
        else None,
        _tile(length(unowned), "of partition time without an owner") if unowned else None,
        _tile(len(findings), "finding", "findings", f", {found}", kind="bad" if worst else None)
        if data.has("findings")
        else None,
    ]
    return tag("ul", shown, class_="tiles")


def _rate(number: int, of: float) -> str:
    each = number / (of or 1)
    return count(round(each)) if each >= 10 else f"{each:.2g}" if each >= 0.01 else "less than 0.01"


def _tile(
    number: str | int, one: str, many: str = "", more: str = "", kind: str | None = None
) -> Html:
    """A number, and below it its word and what belongs to it."""
    word = many if many and number != 1 else one
    shown = count(number) if isinstance(number, int) else number
    return tag("li", tag("b", shown), tag("span", f"{word}{more}"), class_=kind)


def summary(data: Data, about: About, findings: list[Row]) -> Html:
    """Below the title of the page."""
    told: list[Child] = [_amount(about), " from ", [name(each, 80) for each in about.paths[:1]]]
    if len(about.paths) > 1:
        told.append(f" and {count(len(about.paths) - 1, 'other path')}")
    if about.choice:
        told += [", only ", tag("code", name(about.choice, 200))]
    inferred = tag("p", tag("b", "Inferred: "), _INFERRED, class_="problem")
    return joined(
        [
            tag("p", told, class_="quiet"),
            _damage(about),
            inferred if data.is_inferred else None,
            tiles(data, findings),
        ]
    )


_INFERRED: Final = (
    "the logs have no group events, so rebalances and their causes were concluded from group "
    "records and commits. Each row says how sure that is."
)


def _damage(about: About) -> Html | None:
    if not about.damage:
        return None
    more = len(about.damage) - PATHS
    return tag(
        "div",
        tag("p", tag("b", "The log is damaged"), ": what is below is of the rest."),
        tag("ul", [tag("li", each) for each in about.damage[:PATHS]]),
        tag("p", f"and {count(more)} more.") if more > 0 else None,
        class_="problem",
    )


def what_was_read(data: Data, about: About) -> Html:
    """Paths, times, amounts, and from where on it is known."""
    paths = [tag("li", tag("code", name(each, 160))) for each in about.paths[:PATHS]]
    more = len(about.paths) - PATHS
    facts: list[tuple[str, Child] | None] = [
        (
            "Read",
            [tag("ul", paths, class_="plain"), f"and {count(more)} more" if more > 0 else None],
        ),
        ("Amount", _amount(about)),
        (
            "Time",
            f"{day_time(data.span.start)} to {day_time(data.span.end)} UTC, {length(data.span.ms)}"
            if data.has_times
            else "not known",
        ),
        ("Source", _source(data)),
        ("Known from", _known(data)),
        ("Not known", " ".join(about.not_known)) if about.not_known else None,
        ("Left out", _left_out(data)) if data.has("rounds") and data.left_out else None,
        ("Damage", f"{count(len(about.damage))}: see the top" if about.damage else "none"),
    ]
    return tag(
        "dl", [[tag("dt", each[0]), tag("dd", each[1])] for each in facts if each], class_="facts"
    )


def _left_out(data: Data) -> str:
    return f"{count(data.left_out, 'rebalance')} without a group or a usable time"


def _amount(about: About) -> str:
    told = [
        count(about.records, "record") if about.records is not None else None,
        size(about.read_bytes) if about.read_bytes is not None else None,
    ]
    return ", ".join(filter(None, told)) or "Records"


def _source(data: Data) -> str:
    rows = data.rows("rounds", ("source", "confidence"))
    if not rows:
        return "no rebalance was read"
    inferred = [row["confidence"] for row in rows if row["source"] == LOG]
    if not inferred:
        return "group events: rebalances and causes are those that the coordinator stored"
    sure = [each for each in inferred if each is not None]
    how = f", the least sure with confidence {min(sure):.2f}" if sure else ""
    told = f"{count(len(inferred))} of {count(len(rows), 'rebalance')} inferred{how}"
    return told if len(inferred) < len(rows) else f"group records and commits: {told}"


def _known(data: Data) -> str:
    rows = data.rows("coverage", ("partition", "first_offset", "known_from_offset", "known_from"))
    if not rows:
        return "not told"
    late = [row for row in rows if (row["known_from_offset"] or 0) > (row["first_offset"] or 0)]
    if not late:
        return f"everything in {count(len(rows), 'partition')} of the log that was read is known"
    times = [row["known_from"] for row in late if row["known_from"] is not None]
    since = f", the last one from {day_time(max(times))} UTC on" if times else ""
    return (
        f"{count(len(late))} of {count(len(rows), 'partition')} of the log were compacted or cut, "
        f"and are known from a later offset on{since}: see the table of coverage"
    )
