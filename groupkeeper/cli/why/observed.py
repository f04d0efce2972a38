"""Reads what `groupkeeper why --http` shows from an observer, if a cluster stores no causes."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from groupkeeper.cli.why.inferred import Wanted
from groupkeeper.cli.why.now import LiveViews
from groupkeeper.cli.why.read import ReadEntries
from groupkeeper.history.rounds import Folding, SessionLimits
from groupkeeper.protocol.group_events import Event, decode
from groupkeeper.why.texts import time_text

EVENTS: Final = 1_000
"""Number of events that an observer is asked for: its most in an answer."""
FULL_BYTES: Final = 512 * 1024
"""Size of the events from which on an answer may have been cut."""


class Observed(NamedTuple):
    """Entries of a group that an observer has stored."""

    told: ReadEntries
    unreadable: int
    """Number of events that cannot be decoded, as those of later versions."""
    first_error: str


async def read_observed(views: LiveViews, wanted: Wanted, limits: SessionLimits) -> Observed | None:
    """Return the entries of the last `EVENTS` events, those from `since_ms` on; None if the port is
    not that of an observer, or the observer does not know the group. Raises NoLiveView.
    """
    found = await views.ask(f"/events?limit={EVENTS}")
    if found is None or found.get("observes") is None:
        return None
    values = [json.dumps(each).encode() for each in found["events"]]
    events, errors = list[Event](), list[str]()
    for value in values:
        try:
            events.append(decode(None, value))
        except ValueError as error:
            errors.append(str(error))
    told = ReadEntries(folding=Folding(limits))
    told.take(events)
    if events and _may_lack(events, values, wanted):
        oldest = time_text(events[0].at_ms)
        told.left_out = f"an observer tells the last {EVENTS} events of a group, since {oldest}"
    told.forget_before(wanted.since_ms)
    return Observed(told, len(errors), errors[0] if errors else "")


def _may_lack(events: Sequence[Event], values: Sequence[bytes], wanted: Wanted) -> bool:
    """Return whether earlier events may be wanted that are not in the answer."""
    if len(values) < EVENTS and sum(map(len, values)) < FULL_BYTES:
        return False
    if wanted.since_ms is not None:
        return events[0].at_ms > wanted.since_ms
    return sum(each.type == "rebalance_started" for each in events) < wanted.rounds
