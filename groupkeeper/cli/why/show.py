"""The output of `groupkeeper why`: paragraphs for people, or JSON with one object per line."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from groupkeeper.history.rounds import HistoryEntry
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.why.entries import WIDTH, entry_json, entry_text, filled
from groupkeeper.why.folding import folded
from groupkeeper.why.live import live_key, live_text
from groupkeeper.why.texts import count, printable

SMALLEST_WIDTH: Final = 40
UNKNOWN_SHOWN: Final = 20
"""Maximum number of unknown types and fields to name."""


class Printer:
    """Prints entries, the live state and remarks."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._key: object = None

    def entries(self, entries: Iterable[HistoryEntry]) -> None:
        """Print entries: for people, events that repeat themselves are folded."""
        if self._json:
            for entry in entries:
                self.entry(entry)
        else:
            for shown in folded(entries):
                self._print(entry_text(shown, _width()))

    def entry(self, entry: HistoryEntry) -> None:
        """Print a round, or an event outside of rounds."""
        if self._json:
            self._object(entry_json(entry))
        else:
            self._print(entry_text(entry, _width()))

    def live(self, view: dict[str, Any]) -> None:
        """Print the live state of the group, as returned by the HTTP port."""
        if self._json:
            self._object({"kind": "live", **view})
        else:
            self._print(filled(live_text(view), width=_width()))

    def live_if_new(self, view: dict[str, Any]) -> None:
        """Print the live state if the group waits for something else than at the last call."""
        if live_key(view) != self._key:
            self._key = live_key(view)
            self.live(view)

    def text(self, text: str, **fields: Any) -> None:
        """Print a separate paragraph; `fields` are its JSON form."""
        if self._json:
            self._object(fields)
        else:
            self._print(filled(text, width=_width()))

    def skipped(self, unknown: Counter[str], unreadable: int, example: str) -> None:
        """Print what was not shown on standard error: one line for each type of events or field
        that this version does not know, and one for records that are no events.
        """
        for name, times in unknown.most_common(UNKNOWN_SHOWN):
            type_, _, field = name.partition(".")
            if type_ in TYPES and field:
                what = f"with the field {name}"
            else:
                what = f"of type {name}"
            remark(f"{count(times, 'event')} {what}, which this version does not know")
        if len(unknown) > UNKNOWN_SHOWN:
            remark(f"{len(unknown) - UNKNOWN_SHOWN} more types and fields are not known")
        if unreadable:
            what = "record that is no event" if unreadable == 1 else "records that are no events"
            remark(f"skipped {unreadable} {what} ({example})")

    # Any: JSON.
    def _object(self, fields: dict[str, Any]) -> None:
        print(json.dumps(fields), flush=True)

    def _print(self, text: str) -> None:
        print(text, flush=True)


def _width() -> int:
    """Return `WIDTH`, or less on a smaller terminal; files and pipes always get `WIDTH`."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(SMALLEST_WIDTH, min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns))


def remark(text: str) -> None:
    """Print a line on standard error."""
    print(f"groupkeeper: {printable(text)}", file=sys.stderr, flush=True)
