"""Causes in families, each with a colour, a pattern and a letter: seventeen codes are too many to
tell apart by eye. Codes and guesses are those of docs/events.md.
"""

from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.markup import Html, tag


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """`number` is that of its colour (class `cN`) and of its pattern (`#pN`)."""

    number: int
    letter: str
    label: str
    codes: frozenset[str]
    likely: frozenset[str] = frozenset()


EXPIRED: Final = Family(
    0, "E", "no heartbeat in time", frozenset({"session_expired", "pending_member_expired"})
)
SLOW: Final = Family(
    1,
    "S",
    "application too slow",
    frozenset({"join_timeout", "sync_timeout"}),
    frozenset({"max_poll_exceeded", "slow_member"}),
)
RESTARTED: Final = Family(
    2,
    "R",
    "restarted",
    frozenset({"static_member_returned_changed", "static_member_returned_unready"}),
    frozenset({"rolling_restart", "duel"}),
)
LEFT: Final = Family(3, "L", "member left", frozenset({"member_left"}))
JOINED: Final = Family(
    4, "J", "member joined", frozenset({"member_joined", "static_member_joined"})
)
CHANGED: Final = Family(
    5,
    "T",
    "topics changed, or rejoined",
    frozenset({"subscription_changed", "leader_rejoined", "member_rejoined"}),
)
FORCED: Final = Family(
    6,
    "F",
    "forced from outside",
    frozenset({"member_removed_by_admin", "operator", "policy", "group_shrunk", "assignment_lost"}),
)
OTHER: Final = Family(7, "?", "unknown", frozenset())
FAMILIES: Final = (EXPIRED, SLOW, RESTARTED, LEFT, JOINED, CHANGED, FORCED, OTHER)
_BY_CODE: Final = {code: each for each in FAMILIES for code in each.codes}
_BY_LIKELY: Final = {code: each for each in FAMILIES for code in each.likely}


def family(code: str | None, likely: str | None) -> Family:
    """What is likely behind a code counts more than the code."""
    return _BY_LIKELY.get(likely or "") or _BY_CODE.get(code or "", OTHER)


_LINES: Final = ("M0 6L6 0", "M0 0L6 6", "M3 0V6", "M0 3H6", "M0 0M3 3h.1", "M0 6L6 0M0 0L6 6")
"""Strokes of the patterns 0 to 5 in a square of 6; the others are plain."""


def patterns() -> Html:
    """All patterns, once for the page: a colour with a texture over it, for causes; and the hatch
    of partitions without an owner.
    """
    made = [
        _pattern(f"p{each.number}", f"c{each.number}", _LINES[each.number : each.number + 1])
        for each in FAMILIES
    ]
    made.append(_pattern("unowned", "bare", ("M-1 1L1 -1M0 6L6 0M5 7L7 5",)))
    return tag("svg", tag("defs", made), width=0, height=0, aria_hidden="true", class_="defs")


def _pattern(identity: str, kind: str, lines: tuple[str, ...]) -> Html:
    return tag(
        "pattern",
        tag("rect", width=6, height=6, class_=kind),
        [tag("path", d=each, class_=f"texture {kind}") for each in lines],
        id=identity,
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
    )


def legend(families: list[Family]) -> Html:
    """What colours, patterns and letters mean."""
    return tag(
        "ul",
        [tag("li", swatch(f"p{each.number}"), f"{each.letter} {each.label}") for each in families],
        class_="legend",
    )


def swatch(pattern: str) -> Html:
    return _swatch(tag("rect", width=18, height=12, fill=f"url(#{pattern})"))


def box_swatch(kind: str) -> Html:
    """What boxes of a class look like."""
    return _swatch(tag("rect", width=18, height=12, class_=kind))


def _swatch(box: Html) -> Html:
    return tag("svg", box, width=18, height=12, aria_hidden="true", class_="swatch")
