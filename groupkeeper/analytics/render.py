"""Prints tables: framed and coloured on a terminal, plain aligned columns in a pipe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from groupkeeper.why.texts import aligned, printable, time_text

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
    limit = most_rows(to)
    shown: list[list[str]] = []
    count = 0
    for row in rows:
        if count < limit:
            shown.append(
                [printable(column.show(value)) for column, value in zip(columns, row, strict=True)]
            )
        count += 1
    to.print(Text(f"{title}: {count if count else 'none'}", style="bold"))
    if count and to.is_terminal and _fits(to, columns, shown):
        to.print(_framed(columns, shown))
    elif count:
        # Without rich, which takes half a millisecond a row.
        lines = [[column.heading.upper() for column in columns], *shown]
        numbers = [place for place, column in enumerate(columns) if column.number]
        to.file.writelines(f"{line}\n" for line in aligned(lines, numbers))
    if count > limit:
        to.print(f"{limit} of them shown; --out writes all")
    to.print()


def print_sentences(
    to: Console, title: str, count: int, sentences: Sequence[tuple[str, str]]
) -> None:
    """Print sentences, each behind a word about it, under a title with their number. They are
    wrapped on a terminal.
    """
    to.print(Text(f"{title}: {count if count else 'none'}", style="bold"))
    if to.is_terminal:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for word, sentence in sentences:
            grid.add_row(Text(word, style="bold"), Text(printable(sentence)))
        to.print(grid)
    else:
        width = max((len(word) for word, _ in sentences), default=0)
        for word, sentence in sentences:
            to.file.write(f"{word:<{width}}  {printable(sentence)}\n")


def _fits(to: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Cells that are folded to a few letters cannot be read, nor copied: where a frame has no room,
    lines wrap.
    """
    lines = [[column.heading for column in columns], *rows]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    return sum(widths) + 3 * len(widths) - 1 <= to.width


def _framed(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.ROUNDED, pad_edge=False)
    for column in columns:
        justify: JustifyMethod = "right" if column.number else "left"
        table.add_column(column.heading, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def instant(value: object) -> str:
    """Epoch milliseconds in UTC; "-" for negative numbers and null."""
    return time_text(value) if isinstance(value, int) and value >= 0 else "-"
