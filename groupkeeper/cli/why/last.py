"""Reads the last rebalance of groups: stored, or inferred from the records of the last hour."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from groupkeeper.cli.why.inferred import Wanted, read_inferred
from groupkeeper.cli.why.read import read_last
from groupkeeper.cli.why.show import remark
from groupkeeper.history.causes import UNKNOWN
from groupkeeper.history.rounds import Round, SessionLimits
from groupkeeper.why.inferred import sure_text
from groupkeeper.why.texts import time_text

if TYPE_CHECKING:
    from groupkeeper.client import Client

GROUPS_READ: Final = 100
"""Maximum number of groups whose logs are read, one after the other."""


async def last_causes(client: "Client", groups: Iterable[str]) -> dict[str, str | None]:
    """Return time and cause of each group's last rebalance; None if none is known. Says in a line
    if causes cannot be inferred, and from how many groups on nothing is read.
    """
    every = [*groups]
    if len(every) > GROUPS_READ:
        remark(f"causes of {GROUPS_READ} of {len(every)} groups are read: name groups with --group")
    found: dict[str, str | None] = dict.fromkeys(every)
    problems: dict[str, None] = {}
    for group in every[:GROUPS_READ]:
        last = await _last_round(client, group)
        if isinstance(last, str):
            problems[last] = None
        elif last is not None:
            found[group] = cause_column(last)
    for problem in problems:
        remark(f"causes cannot be inferred, as {problem}")
    return found


async def _last_round(client: "Client", group: str) -> Round | str | None:
    """Return the last rebalance, or a clause that says why it cannot be read."""
    from groupkeeper.client.group_events import EventTopicReader, NoEventLog

    limits = SessionLimits()
    try:
        log = await EventTopicReader.of(client, group)
    except NoEventLog:
        pass
    else:
        stored = (await read_last(log, 1, limits)).all()
        rounds = [each for each in stored if isinstance(each, Round)]
        if rounds:
            return rounds[-1]
    found = await read_inferred(client, group, Wanted(), limits)
    if isinstance(found, str):
        return found
    return next((each for each in reversed(found.told.all()) if isinstance(each, Round)), None)


def cause_column(current: Round) -> str:
    """Return time and cause of a rebalance: `2026-11-22 03:00:46.300Z member_left`. An unknown one
    has no figure, as in `groupkeeper why`.
    """
    at_ms = current.ended_at_ms if current.source else current.started_at_ms
    code = (current.cause or {}).get("code") or UNKNOWN
    about = {} if code == UNKNOWN else {"confidence": current.confidence}
    sure = f" ({sure_text(about)})" if current.source else ""
    return f"{time_text(at_ms)} {code}{sure}"
