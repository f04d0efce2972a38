"""Formats the entries of a group's history (rounds, and events outside rounds) as text and JSON."""

import re
import textwrap
from collections.abc import Iterable
from typing import Any, Final

from groupkeeper.history.rounds import UNDER_WAY, HistoryEntry, Round
from groupkeeper.protocol.group_events import ENVELOPE, Event
from groupkeeper.why.advice import advice
from groupkeeper.why.folding import Repeated, ShownEntry, repeated_text
from groupkeeper.why.lines import line
from groupkeeper.why.texts import printable
from groupkeeper.why.words import headline, paragraph, trigger

WIDTH: Final = 100
INDENT: Final = "  "
_UNIT: Final = re.compile(r"(?<=\d) (?=(ms|s|min|h)\b)")
_JOINED: Final = "\N{NO-BREAK SPACE}"


def entry_text(entry: ShownEntry, width: int = WIDTH) -> str:
    """Return a round's headline and paragraph, or the line of an event or of repeated ones."""
    if isinstance(entry, Repeated):
        return filled(repeated_text(entry), "", width)
    if isinstance(entry, Event):
        return filled(line(entry), "", width)
    return f"{printable(headline(entry))}\n{filled(paragraph(entry), INDENT, width)}"


def filled(text: str, first: str = "", width: int = WIDTH) -> str:
    """Wrap text at `width`, with the indent `first` on the first line. A number and its unit are
    never separated.
    """
    lines = textwrap.fill(
        _UNIT.sub(_JOINED, printable(text)),
        width,
        initial_indent=first,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_JOINED, " ")


# Any: JSON.
def entry_json(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry as a JSON object with its text; `kind` is `round` or `event`."""
    if isinstance(entry, Event):
        envelope = {name: getattr(entry, name) for name in ENVELOPE}
        fields = {name: each for name, each in entry.fields.items() if name != "kind"}
        return {"kind": "event", **envelope, **fields, "text": line(entry)}
    told = advice(entry) if entry.outcome != UNDER_WAY else None
    told_cause = {"cause_text": trigger(entry)}
    return {
        "kind": "round",
        **entry.as_json(),
        **told_cause,
        "text": paragraph(entry),
        "advice": told,
    }


def last_rounds(entries: Iterable[HistoryEntry], rounds: int | None) -> list[HistoryEntry]:
    """Return the last `rounds` rounds (None: all), and the events since the first of them."""
    kept = [*entries]
    if rounds is None:
        return kept
    starts = [index for index, each in enumerate(kept) if isinstance(each, Round)]
    return kept if len(starts) <= rounds else kept[starts[-rounds] :]
