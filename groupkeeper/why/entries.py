"""Entries of a group (rounds, and events outside of rounds): as JSON, and the last of them."""

from collections.abc import Iterable
from typing import Any

from groupkeeper.history.rounds import UNDER_WAY, Entry, Round
from groupkeeper.protocol.group_events import ENVELOPE, Event
from groupkeeper.why.advice import advice
from groupkeeper.why.lines import line
from groupkeeper.why.words import paragraph, trigger


# Any: JSON.
def entry_json(entry: Entry) -> dict[str, Any]:
    """An entry as a JSON object, with its text; `kind` is `round` or `event`."""
    if isinstance(entry, Event):
        envelope = {name: getattr(entry, name) for name in ENVELOPE}
        return {"kind": "event", **envelope, **entry.fields, "text": line(entry)}
    told = advice(entry) if entry.outcome != UNDER_WAY else None
    told_cause = {"cause_text": trigger(entry)}
    return {
        "kind": "round",
        **entry.as_json(),
        **told_cause,
        "text": paragraph(entry),
        "advice": told,
    }


def last_rounds(entries: Iterable[Entry], rounds: int | None) -> list[Entry]:
    """The last so many rounds, with what happened since the first of them."""
    kept = [*entries]
    if rounds is None:
        return kept
    starts = [index for index, each in enumerate(kept) if isinstance(each, Round)]
    return kept if len(starts) <= rounds else kept[starts[-rounds] :]
