"""Spans, times, sizes, members and settings in words, and rows in columns."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from unicodedata import east_asian_width

from groupkeeper.history.fields import Part

UUID_LENGTH: Final = 36
SHORT: Final = 8
"""How much of the UUID in a member id is shown."""
NAMED: Final = 3
"""How many of a list are named; then it says how many more there are."""
WIDEST: Final = 64
"""Columns are not made wider for longer cells: one long name would pad all rows."""


def span(ms: int) -> str:
    """A duration: 850 ms, 3.2 s, 45 s, 5 min 3 s, 2 h 5 min."""
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
    """A time in UTC, to the millisecond."""
    if at_ms is None:
        return "at an unknown time"
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"at {at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03}Z"


def printable(text: str) -> str:
    """Text of clients without what would move the cursor, or could not be encoded."""
    return "".join(each if each.isprintable() else "?" for each in text)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Lines with the cells below each other. `right`: columns of numbers, by their places."""
    widths = [min(max(map(_width, cells)), WIDEST) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - _width(cell))
            cells.append(space + cell if place in right else cell + space)
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """The places on a screen: a Chinese character takes two."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(c) in "WF") for c in text)


def short_id(member: str) -> str:
    """A member id with the beginning of its UUID; another one as it is."""
    uuid = member[-UUID_LENGTH:]
    if uuid.count("-") == 4 and len(member) > UUID_LENGTH:
        return member[: -UUID_LENGTH + SHORT]
    return member if len(member) <= 2 * UUID_LENGTH else f"{member[: 2 * UUID_LENGTH]}..."


def name_of(who: Part) -> str:
    """A member in a word: its instance id, or its short member id, or the client."""
    instance, member, client = who.get("instance"), who.get("member"), who.get("client_id")
    return str(instance or short_id(member or "") or client or "a client")


def person(who: Part | None) -> str:
    """A member or client with its address and software: pod-3 (member billing-1c9f, /10.0.0.7,
    librdkafka 2.3.0).
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
    return f"{name} ({', '.join(details)})" if details else name


def software_of(who: Part) -> str:
    """Name and version of the client's software; empty if it did not say."""
    software = who.get("software") or {}
    return " ".join(str(software[key]) for key in ("name", "version") if software.get(key))


def hosts_text(evidence: Part) -> str:
    """The addresses in the evidence of a duel."""
    hosts = evidence.get("hosts")
    found = (
        dict.fromkeys(str(each).lstrip("/") for each in hosts) if isinstance(hosts, list) else {}
    )
    return " and ".join(found)


def some_of(texts: Iterable[str], most: int = NAMED, number: int = 0) -> str:
    """The first of a list, and how many more there are. `number`: of all, if the list is cut."""
    every = [*texts]
    more = max(number, len(every)) - most
    named = ", ".join(every[:most])
    return named if more <= 0 else f"{named} and {more} more"


def partitions_text(partitions: Part) -> str:
    """Topics with their partitions: orders 0-3, payments 7."""
    return some_of(f"{topic} {ranges(some)}" for topic, some in sorted(partitions.items()))


def ranges(numbers: Iterable[int]) -> str:
    """0-3,7 for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for each in sorted(set(numbers)):
        if runs and runs[-1][-1] == each - 1:
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    return ",".join("-".join(map(str, run)) for run in runs)


def count(amount: int, what: str) -> str:
    """1 member, 2 members."""
    return f"{amount} {what}" + ("" if amount == 1 else "s")


def size(amount: float) -> str:
    """Bytes in the unit that keeps the number short: 850 bytes, 1.5 kB, 2.0 GB; "?" below 0."""
    if amount < 0:
        return "?"
    unit = "bytes"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def above(ms: int, factor: float = 1.25) -> int:
    """A round number of milliseconds with room above a measured time."""
    wanted = ms * factor
    step = 1_000 if wanted < 10_000 else 5_000 if wanted < 120_000 else 60_000
    return max(step, -int(-wanted // step) * step)


def setting(name: str, value: int) -> str:
    """As it stands in a properties file, with the time in words."""
    text = f"{name}={value}"
    return f"{text} ({span(value)})" if name.endswith(".ms") else text


def settings_in(text: str) -> list[tuple[str, int]]:
    """The settings that `setting` wrote into a text, in their order."""
    return [(name, int(value)) for name, value in _SETTING.findall(text)]


_SETTING: Final = re.compile(r"(?<![\w.])([a-z]+(?:\.[a-z]+)+)=(\d+)")
