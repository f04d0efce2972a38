"""How `groupkeeper why` prints: paragraphs and lines for people, or JSON, one object a line."""

import json
import re
import shutil
import sys
import textwrap
from collections import Counter
from typing import Any, Final

from groupkeeper.cli.tables import printable
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.entries import entry_json
from groupkeeper.why.lines import line
from groupkeeper.why.live import live_key, live_text, status_text
from groupkeeper.why.rounds import Entry
from groupkeeper.why.words import headline, paragraph

WIDTH: Final = 100
SMALLEST_WIDTH: Final = 40
INDENT: Final = "  "
_UNIT: Final = re.compile(r"(?<=\d) (?=(ms|s|min|h)\b)")
_JOINED: Final = "\N{NO-BREAK SPACE}"


class Printer:
    """Prints entries, the live state and remarks."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._key: object = None
        self._has_status = False

    def entry(self, entry: Entry) -> None:
        """A round, or an event outside of rounds."""
        if self._json:
            self._object(entry_json(entry))
        else:
            self._print(entry_text(entry))

    def live(self, view: dict[str, Any]) -> None:
        """The state of the group, as the HTTP port tells it."""
        if self._json:
            self._object({"kind": "live", **view})
        else:
            self._print(_filled(live_text(view), ""))

    def status(self, view: dict[str, Any]) -> None:
        """The same while a round is under way: on a terminal a line that is overwritten; else
        a new line only when the group waits for something else.
        """
        if self._json or not sys.stdout.isatty():
            if live_key(view) != self._key:
                self._key = live_key(view)
                self.live(view)
            return
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"\r\x1b[2K{printable(status_text(view))[:width]}")
        sys.stdout.flush()
        self._has_status = True

    def text(self, text: str, **fields: Any) -> None:
        """A paragraph of its own; `fields` are what it says as JSON."""
        if self._json:
            self._object(fields)
        else:
            self._print(_filled(text, ""))

    def skipped(self, unknown: Counter[str], unreadable: int, example: str) -> None:
        """What was skipped, in one line on standard error."""
        parts = []
        if unknown:
            names = ", ".join(f"{each} ({times})" for each, times in unknown.most_common(5))
            parts.append(f"{unknown.total()} types or fields of another version: {names}")
        if unreadable:
            parts.append(f"{unreadable} records that are no events ({example})")
        if parts:
            remark(f"skipped {'; '.join(parts)}")

    # -- lines -----------------------------------------------------------------------------------

    # Any: JSON.
    def _object(self, fields: dict[str, Any]) -> None:
        self._clear()
        print(json.dumps(fields), flush=True)

    def _print(self, text: str) -> None:
        self._clear()
        print(text, flush=True)

    def _clear(self) -> None:
        if self._has_status:
            sys.stdout.write("\r\x1b[2K")
            self._has_status = False


def entry_text(entry: Entry) -> str:
    """A round with its headline, or the line of an event; in lines of at most `WIDTH`."""
    if isinstance(entry, Event):
        return _filled(line(entry), "")
    return f"{printable(headline(entry))}\n{_filled(paragraph(entry), INDENT)}"


def _width() -> int:
    """`WIDTH`, or what a smaller terminal has; files and pipes do not depend on a terminal."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(SMALLEST_WIDTH, min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns))


def _filled(text: str, first: str) -> str:
    """A number and its unit stay in one line."""
    filled = textwrap.fill(
        _UNIT.sub(_JOINED, printable(text)),
        _width(),
        initial_indent=first,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_JOINED, " ")


def remark(text: str) -> None:
    """A line on standard error."""
    print(f"groupkeeper: {printable(text)}", file=sys.stderr, flush=True)
