"""Rounds, events and the live state as lines of text, as `groupkeeper why` prints them."""

import re
import textwrap
from typing import Final

from groupkeeper.history.rounds import Entry
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.lines import line
from groupkeeper.why.texts import printable
from groupkeeper.why.words import headline, paragraph

WIDTH: Final = 100
INDENT: Final = "  "
_UNIT: Final = re.compile(r"(?<=\d) (?=(ms|s|min|h)\b)")
_JOINED: Final = "\N{NO-BREAK SPACE}"


def entry_text(entry: Entry, width: int = WIDTH) -> str:
    """A round with its headline, or the line of an event."""
    if isinstance(entry, Event):
        return filled(line(entry), "", width)
    return f"{printable(headline(entry))}\n{filled(paragraph(entry), INDENT, width)}"


def filled(text: str, first: str = "", width: int = WIDTH) -> str:
    """Lines of at most `width`, the first one with this indent. A number and its unit stay in one
    line.
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
