"""Formats durations, times, sizes, members and settings as text, and rows as aligned columns."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from unicodedata import east_asian_width

from groupkeeper.history.fields import Part

UUID_LENGTH: Final = 36
SHORT: Final = 8
"""Number of characters shown of the UUID in a member id."""
NAMED: Final = 3
"""Default number of items named from a list; further ones are counted."""
WIDEST: Final = 64
"""Maximum width to which a column is padded, so that one long name does not widen all rows."""


def span(ms: int) -> str:
    """Return a duration as text: 850 ms, 3.2 s, 45 s, 5 min 3 s, 2 h 5 min."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7_200:
        return _two(seconds, 60, "min", "s")
    return _two(round(seconds / 60), 60, "h", "min")


def _two(amount: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(amount, size)
    return f"{whole} {large}" + (f" {rest} {small}" if rest else "")


def time_text(at_ms: int | None) -> str:
    """Return a time (Unix ms) as UTC text with milliseconds."""
    if at_ms is None:
        return "at an unknown time"
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"at {at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03}Z"


def printable(text: str) -> str:
    """Replace control characters and other unprintable ones in text from clients by "?"."""
    return "".join(each if each.isprintable() else "?" for each in text)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Yield rows as lines with aligned columns. `right`: indexes of right-aligned columns."""
    widths = [min(max(map(_width, cells)), WIDEST) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - _width(cell))
            cells.append(space + cell if place in right else cell + space)
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Return the width in terminal cells; East Asian wide characters take two."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(c) in "WF") for c in text)


def short_id(member: str) -> str:
    """Shorten the UUID at the end of a member id; cut other very long ids."""
    uuid = member[-UUID_LENGTH:]
    if uuid.count("-") == 4 and len(member) > UUID_LENGTH:
        return member[: -UUID_LENGTH + SHORT]
    return member if len(member) <= 2 * UUID_LENGTH else f"{member[: 2 * UUID_LENGTH]}..."


def name_of(who: Part) -> str:
    """Return a member's instance id, else its short member id, else its client id."""
    instance, member, client = who.get("instance"), who.get("member"), who.get("client_id")
    return str(instance or short_id(member or "") or client or "a client")


def person(who: Part | None) -> str:
    """Return a member or client with its details: pod-3 (member billing-1c9f, on 10.0.0.7,
    librdkafka 2.3.0, logged in as User:billing).
    """
    if not who:
        return "a client"
    name = name_of(who)
    details = []
    if who.get("instance") and who.get("member"):
        details.append(f"member {short_id(who['member'])}")
    client = who.get("client_id")
    if client and client not in name and not any(client in each for each in details):
        details.append(f"client {client}")
    if who.get("host"):
        details.append(f"on {who['host'].lstrip('/')}")
    software = software_of(who)
    if software and software.replace(" ", "-") not in name:
        details.append(software)
    if who.get("principal"):
        details.append(f"logged in as {who['principal']}")
    return f"{name} ({', '.join(details)})" if details else name


def software_of(who: Part) -> str:
    """Return name and version of the client's software (KIP-511); empty if unknown."""
    software = who.get("software") or {}
    return " ".join(str(software[key]) for key in ("name", "version") if software.get(key))


def hosts_text(evidence: Part) -> str:
    """Return the client addresses in the evidence of a duel."""
    hosts = evidence.get("hosts")
    found = (
        dict.fromkeys(str(each).lstrip("/") for each in hosts) if isinstance(hosts, list) else {}
    )
    return " and ".join(found)


def some_of(texts: Iterable[str], most: int = NAMED, number: int = 0) -> str:
    """Join the first items of a list and count the rest. `number`: total, if the list is cut."""
    every = [*texts]
    more = max(number, len(every)) - most
    named = ", ".join(every[:most])
    return named if more <= 0 else f"{named} and {more} more"


def joined_text(*sentences: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, sentences))


def partitions_text(partitions: Part) -> str:
    """Return topics with their partitions: orders 0-3, payments 7."""
    return some_of(f"{topic} {ranges(some)}" for topic, some in sorted(partitions.items()))


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: "0-3,7" for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for each in sorted(set(numbers)):
        if runs and runs[-1][-1] == each - 1:
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    return ",".join("-".join(map(str, run)) for run in runs)


def count(amount: int, what: str) -> str:
    """Return a number with a noun: 1 member, 2 members."""
    return f"{amount} {what}" + ("" if amount == 1 else "s")


def size(amount: float) -> str:
    """Return a size in a suitable unit: 850 bytes, 1.5 kB, 2.0 GB; "?" if it is negative."""
    if amount < 0:
        return "?"
    unit = "bytes"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def above(ms: int, factor: float = 1.25) -> int:
    """Return a round number of milliseconds at least `factor` times a measured time."""
    wanted = ms * factor
    step = 1_000 if wanted < 10_000 else 5_000 if wanted < 120_000 else 60_000
    return max(step, -int(-wanted // step) * step)


def setting(name: str, value: int) -> str:
    """Return a setting as in a properties file; times in ms also as text."""
    text = f"{name}={value}"
    return f"{text} ({span(value)})" if name.endswith(".ms") else text


def settings_in(text: str) -> list[tuple[str, int]]:
    """Return the (name, value) pairs of all settings in a text made by `setting`, in order."""
    return [(name, int(value)) for name, value in _SETTING.findall(text)]


_SETTING: Final = re.compile(r"(?<![\w.])([a-z]+(?:\.[a-z]+)+)=(\d+)")
