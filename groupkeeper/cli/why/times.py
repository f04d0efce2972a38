"""Parses the times given to `--since`."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_SPAN: Final = re.compile(r"(\d{1,9})(s|m|h|d)")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def read_since(text: str, now_ms: int | None = None) -> int:
    """Parse `3h` ago, the last `03:00`, or a date and time, into Unix milliseconds. UTC unless the
    text has a zone. Raises ValueError with a message for the user.
    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    if span := _SPAN.fullmatch(text):
        return max(0, now - int(span[1]) * _UNIT_MS[span[2]])
    try:
        if _CLOCK.fullmatch(text):
            today = datetime.fromtimestamp(now / 1000, UTC)
            parts = [*map(int, text.split(":")), 0][:3]
            at = today.replace(hour=parts[0], minute=parts[1], second=parts[2], microsecond=0)
            found = at if at <= today else at - timedelta(days=1)
        else:
            found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not a time: give 3h, 45m, 2d, 03:00 or 2026-11-22T03:00 (UTC)"
        ) from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return max(0, round(found.timestamp() * 1000))


def since_option(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """The callback of an option `--since`."""
    try:
        return None if text is None else read_since(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
