"""Counts successive rounds with the same cause."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from groupkeeper.history.rounds import Round

ALIKE_MS: Final = 900_000
"""Successive rounds with the same cause count as repeats if they begin at most this far apart."""


class Alike(NamedTuple):
    """The last round that began, for comparison with the next one."""

    code: str | None
    started_at_ms: int
    repeats: int
    since_ms: int
    from_state: str | None


def count_alike(before: Alike | None, started: "Round") -> Alike:
    """Set how often the cause of a round repeats itself. Returns what the next one needs."""
    code = (started.cause or {}).get("code")
    began = started.started_at_ms or 0
    started.repeats_from = started.from_state
    if before is not None and code == before.code:
        since = began - before.started_at_ms
        if since <= ALIKE_MS:
            started.repeats = before.repeats + 1
            started.repeats_since_ms = since + before.since_ms
            started.repeats_from = before.from_state
    since = started.repeats_since_ms or 0
    return Alike(code, began, started.repeats, since, started.repeats_from)
