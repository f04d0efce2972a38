"""From the figures of `benchmarks.analysis` to Markdown. Pure but for `environment`."""

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from benchmarks.analysis_logs import MB, Log

Row = Sequence[str]


@dataclass(slots=True)
class Figure:
    """Medians over all times: seconds, and CPU seconds of all processes."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_s)


@dataclass(slots=True)
class Measured:
    """Of one case with one log: figures by name, and MiB of the largest process of each kind, the
    worst of all rounds.
    """

    figures: dict[str, Figure] = field(default_factory=dict)
    python_mib: float = 0.0
    java_mib: float = 0.0


@dataclass(slots=True)
class Results:
    """By log and case."""

    logs: dict[str, Log] = field(default_factory=dict)
    measured: dict[tuple[str, str], Measured] = field(default_factory=dict)

    def of(self, log: str, case: str) -> Measured:
        return self.measured.setdefault((log, case), Measured())

    def figure(self, log: str, case: str, name: str = "all") -> Figure | None:
        found = self.measured.get((log, case))
        return found.figures.get(name) if found else None

    @property
    def sizes(self) -> list[str]:
        """The logs of rising size."""
        return [name for name, log in self.logs.items() if log.kind == "mixed"]


# Case, figure, and what the row is called.
_ROWS: Final = (
    ("alone", "all", "parser alone, one process, all columns"),
    ("alone", "five", "five columns"),
    ("alone", "one", "one column"),
    ("alone-2", "all", "parser alone, two processes"),
    ("spark", "first", "Spark, all columns, the first time"),
    ("spark", "all", "Spark, all columns, warm"),
    ("spark", "five", "five columns"),
    ("spark", "one", "one column"),
    ("spark", "group", "one group, all columns"),
    ("rows", "all", "Spark, a tuple for each record, warm"),
    ("commits", "warm scan", "Spark, all columns, beside the next"),
    ("commits", "warm table", "Spark, table `commits` of `--out`"),
    ("analyze", "all", "`analyze`"),
    ("analyze-group", "all", "`analyze --group`"),
    ("analyze-out", "all", "`analyze --out`"),
    ("analyze-report", "all", "`analyze --report`"),
)
_ONCE: Final = (
    ("compile", "libraries", "import of numba and pyarrow"),
    ("compile", "load", "the same, and the kernels from the cache"),
    ("compile", "compile", "the same, and the kernels compiled for the cache"),
    ("spark", "start", "start of Java and Spark"),
)


def table(heads: Row, rows: Iterable[Row]) -> str:
    """The first column is text, the others are numbers."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def markdown(results: Results, command: str) -> str:
    parts = [_HEAD, environment(command), "## What is expected of it", expected(results)]
    for name in results.logs:
        if rows := [*_rows(results, name)]:
            heads = ["", "seconds", "MB/s", "to the parser alone", "CPU s", "Python MiB"]
            parts += [f"## {_title(results.logs[name])}", table([*heads, "Java MiB"], rows)]
    if once := [*_once(results)]:
        parts += ["## Once", table(["", "seconds", "CPU s"], once)]
    if steps := [*_stages(results)]:
        heads = ["", *(_short(results.logs[name]) for name in results.sizes)]
        parts += ["## Where the time of `analyze --report` goes", table(heads, steps)]
    return "\n\n".join(parts) + "\n"


_HEAD: Final = """# The analysis

Written by `python -m benchmarks.analysis`; [README.md](README.md) says what each row is. Read the
ratios: they were measured side by side in one run. Times are medians, MB are those of the offsets
log, memory is the largest process of a kind."""


def environment(command: str) -> str:
    now = datetime.now(UTC)
    return "\n".join(
        [
            f"- Date: {now:%Y-%m-%d %H:%M} UTC",
            f"- Command: `{command}`",
            f"- Python: {platform.python_implementation()} {platform.python_version()}",
            f"- Kernel: {platform.system()} {platform.release()} {platform.machine()}",
            f"- Cores: {os.cpu_count()}, load average at the end {os.getloadavg()[0]:.1f}",
        ]
    )


def _short(log: Log) -> str:
    return f"{log.size / MB:,.0f} MB"


def _title(log: Log) -> str:
    commits = {
        "mixed": "a tenth of what was committed in transactions",
        "plain": "no transactions",
        "transactional": "nearly all in transactions",
    }
    events = f"{log.events / MB:,.0f} MB of events"
    return f"{_short(log)}, {log.records:,} records, {commits[log.kind]}; {events}"


def _rows(results: Results, log: str) -> Iterable[Row]:
    alone = results.figure(log, "alone")
    size = results.logs[log].size / MB
    for case, name, title in _ROWS:
        found = results.figure(log, case, name)
        if found is None:
            continue
        measured = results.of(log, case)
        share = f"{alone.s / found.s:.2f}" if alone else "-"
        java = f"{measured.java_mib:,.0f}" if measured.java_mib else "-"
        numbers = f"{found.s:.2f}", f"{size / found.s:,.0f}", share, f"{found.cpu:.1f}"
        yield (title, *numbers, f"{measured.python_mib:,.0f}", java)


def _once(results: Results) -> Iterable[Row]:
    for case, name, title in _ONCE:
        found = next((results.figure(log, case, name) for log in results.sizes), None)
        if found:
            yield title, f"{found.s:.2f}", f"{found.cpu:.1f}"


def _stages(results: Results) -> Iterable[Row]:
    sizes = results.sizes
    names = dict.fromkeys(
        name for log in sizes for name in results.of(log, "stages").figures if sizes
    )
    for name in names:
        found = [results.figure(log, "stages", name) for log in sizes]
        yield (name, *(f"{each.s:.2f} s" if each else "-" for each in found))


# -- what has to hold ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expectation:
    """`bound` is the most or, with `at_least`, the least. The value is None if it was not
    measured.
    """

    sentence: str
    value: Callable[[Results], float | None]
    bound: float
    at_least: bool = False


def _between(
    one: tuple[str, str], other: tuple[str, str], log: int = -1
) -> Callable[[Results], float | None]:
    """Seconds of one figure over those of the other, with a log of `sizes`."""

    def value(results: Results) -> float | None:
        name = results.sizes[log]
        above, below = results.figure(name, *one), results.figure(name, *other)
        return above.s / below.s if above and below else None

    return value


def _kinds(case: str, name: str = "all") -> Callable[[Results], float | None]:
    """Seconds a byte of transactional commits over those of plain ones."""

    def value(results: Results) -> float | None:
        costs = {}
        for key, log in results.logs.items():
            if found := results.figure(key, case, name):
                costs[log.kind] = found.s / log.size
        if not {"plain", "transactional"} <= costs.keys():
            return None
        return costs["transactional"] / costs["plain"]

    return value


def _growth(of: Callable[[Results, str], float | None]) -> Callable[[Results], float | None]:
    """Of the largest log over that of the one before."""

    def value(results: Results) -> float | None:
        if len(results.sizes) < 2:
            return None
        before, largest = (of(results, name) for name in results.sizes[-2:])
        return largest / before if before and largest else None

    return value


def _cost(case: str) -> Callable[[Results, str], float | None]:
    def of(results: Results, log: str) -> float | None:
        found = results.figure(log, case)
        return found.s / results.logs[log].size if found else None

    return of


def _memory(case: str) -> Callable[[Results, str], float | None]:
    return lambda results, log: results.of(log, case).python_mib or None


def _worst_memory(results: Results) -> float | None:
    name = results.sizes[-1]
    found = [each.python_mib for (log, _), each in results.measured.items() if log == name]
    return max(found, default=None)


_SPARK, _ALONE, _ANALYZE = ("spark", "all"), ("alone", "all"), ("analyze", "all")
# 145, 190 and 250 MB/s where the parser alone has 300.
EXPECTED: Final = (
    Expectation(
        "warm scan, all columns, to the parser alone", _between(_ALONE, _SPARK), 0.48, True
    ),
    Expectation("five columns", _between(_ALONE, ("spark", "five")), 0.63, True),
    Expectation("one column", _between(_ALONE, ("spark", "one")), 0.83, True),
    Expectation("scan of transactions over plain commits, time per byte", _kinds("spark"), 1.1),
    Expectation("`analyze` of transactions over plain commits", _kinds("analyze"), 1.1),
    Expectation("scan of a group over all", _between(("spark", "group"), _SPARK), 0.2),
    Expectation("`analyze --group` over all", _between(("analyze-group", "all"), _ANALYZE), 0.2),
    Expectation(
        "table `commits` over a scan",
        _between(("commits", "warm table"), ("commits", "warm scan")),
        2.0,
    ),
    Expectation("`analyze --out` over a scan", _between(("analyze-out", "all"), _SPARK), 2.0),
    Expectation("largest Python process, MiB", _worst_memory, 600.0),
    Expectation("cost per byte of a scan, to the log before", _growth(_cost("spark")), 1.2),
    Expectation("cost per byte of `analyze`, to the log before", _growth(_cost("analyze")), 1.2),
    Expectation("memory of a scan, to the log before", _growth(_memory("spark")), 1.2),
    Expectation("memory of `analyze`, to the log before", _growth(_memory("analyze")), 1.2),
)


def expected(results: Results) -> str:
    rows = []
    for each in EXPECTED:
        value = each.value(results) if results.sizes else None
        if value is None:
            continue
        met = value >= each.bound if each.at_least else value <= each.bound
        wanted = f"at {'least' if each.at_least else 'most'} {each.bound:g}"
        rows.append([each.sentence, wanted, f"{value:.3g}", "yes" if met else "no"])
    return table(["with the largest log", "wanted", "measured", "met"], rows)
