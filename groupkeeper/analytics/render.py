"""Prints tables: framed and coloured on a terminal, plain aligned columns in a pipe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wide enough that nothing wraps in the input of another program.
_PIPE_WIDTH: Final = 4096
TERMINAL_ROWS: Final = 200
PIPE_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how to show a value. Numbers are aligned to the right."""

    heading: str
    show: Callable[[object], str]
    number: bool = False


def console() -> Console:
    """For standard output, as wide as its terminal; in a pipe as wide as the text."""
    probe = Console(highlight=False, soft_wrap=False)
    return probe if probe.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def most_rows(to: Console) -> int:
    return TERMINAL_ROWS if to.is_terminal else PIPE_ROWS


def print_table(
    to: Console, title: str, columns: Sequence[Column], rows: Iterable[Sequence[object]]
) -> None:
    """Print the table under its title, or one line if it is empty. At most `most_rows` are shown,
    with a line if there are more.
    """
    table = Table(box=box.ROUNDED if to.is_terminal else None, pad_edge=False)
    for column in columns:
        heading = column.heading if to.is_terminal else column.heading.upper()
        table.add_column(heading, justify="right" if column.number else "left", overflow="fold")
    limit = most_rows(to)
    count = 0
    for row in rows:
        if count < limit:
            pairs = zip(columns, row, strict=True)
            table.add_row(*(Text(plain(column.show(value))) for column, value in pairs))
        count += 1
    to.print(Text(f"{title}: {count if count else 'none'}", style="bold"))
    if count:
        to.print(table)
    if count > limit:
        to.print(f"{limit} of them shown; --out writes all")
    to.print()


def plain(text: str) -> str:
    """Without line ends and control codes: clients choose names and metadata."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def instant(value: object) -> str:
    """Epoch milliseconds in UTC; "-" for negative numbers and null."""
    if not isinstance(value, int) or value < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{value} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{value % 1000:03d}Z"


def ranges(numbers: Iterable[int]) -> str:
    """0,1,2,5 -> 0-2,5"""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def size(count: int) -> str:
    """Bytes in the unit that keeps the number short."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{count} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
