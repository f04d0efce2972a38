"""Runs of `analyze --out` on logs that grow, and what is in the folder then. For tests."""

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from pyarrow import parquet

from groupkeeper.analytics import answering
from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.questions.registry import ask as asked
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.store.durable import PRIVATE
from groupkeeper.analytics.store.tables import dataset_of


def analyzed(log, out, **options):
    """The exit code."""
    return report.analyze([log], Request(out, **options))


def read_tables(
    folder: AnyPath, names: Iterable[str] = tuple(TABLES), since_ms: int | None = None
) -> dict[str, pa.Table]:
    """Name -> the rows of the table."""
    return {name: dataset_of(folder, name, since_ms).to_table() for name in names}


def ask_little(monkeypatch):
    """All questions take longer than all else: ask one, whose answer is kept as others are."""

    def ask(folder, chosen, engine, threads, progress, replayed_most):
        rate = asked("rebalance_rate", read_tables(folder))
        return answering.AskedTables({}, {}, {}), {"rebalance_rate": rate}

    monkeypatch.setattr(answering, "ask", ask)


def seen(out):
    """Table -> how often each of its rows is there, for a reader that knows nothing of a run."""
    names = [path.name for path in out.iterdir() if path.name in TABLES]
    found = {name: parquet.read_table(out / name).drop_columns("day") for name in names}
    return {name: Counter(map(repr, table.to_pylist())) for name, table in found.items()}


def rows(out):
    """Table -> how often each of its rows is there; printed ones and answers, too."""
    found = read_tables(out)
    found |= {
        f"report {name}": parquet.read_table(out / "report" / f"{name}.parquet")
        for name in (*report.TABLES, "problems")
    }
    found |= {
        f"answer {path.stem}": parquet.read_table(path) for path in out.glob("answers/*.parquet")
    }
    found["records"] = parquet.read_table(out / "records", partitioning=None)
    counted = {name: Counter(map(repr, table.to_pylist())) for name, table in found.items()}
    assert seen(out) == {name: counted[name] for name in TABLES}
    return counted


def ended(out):
    """Whether nothing is left in the folder of a run that was killed."""
    return [path.name for path in (out / PRIVATE).iterdir()] == ["state.zip"]


def files(out):
    """Path -> when it was changed, and its content."""
    return {
        path.relative_to(out): (path.stat().st_mtime_ns, path.read_bytes())
        for path in out.rglob("*")
        if path.is_file()
    }


def same(found, expected):
    """Of all tables; the differences are told by table."""
    assert found.keys() == expected.keys()
    for name in TABLES | expected:
        assert found[name] == expected[name], name
