"""The options of an analysis."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Choice:
    """Limits of the rows. `groups`: only these, if any; `since_ms`: only later changes (epoch
    milliseconds); `top`: only this many groups, those with the most generations.
    """

    groups: frozenset[str] = frozenset()
    since_ms: int | None = None
    top: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The requested outputs: Parquet files in the folder or URL `out`, CSV files in the folder
    `csv`, an HTML page in the file `report`, or JSON lines instead of text, of the rows in
    `choice`.

    `events_alone`: what is read has no offsets log, so what is told are answers about events.
    `rebuild` replaces the tables in `out`. `workers` is the number of processes. `origin` is the
    cluster that the paths are a copy of, for the report.
    """

    out: Path | str | None = None
    csv: Path | None = None
    report: Path | None = None
    as_json: bool = False
    workers: int | None = None
    rebuild: bool = False
    origin: str | None = None
    events_alone: bool = False
    choice: Choice = field(default_factory=Choice)

    @property
    def asks(self) -> bool:
        """Whether questions are answered: if a folder or a report holds the answers, or there is
        nothing else to tell.
        """
        return self.out is not None or self.report is not None or self.events_alone
