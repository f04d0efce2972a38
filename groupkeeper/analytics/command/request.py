"""What is wanted of an analysis."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Choice:
    """`groups`: only these, if any is named; `since_ms`: only what happened from then on (epoch
    milliseconds); `top`: only so many groups, those that reached most generations.
    """

    groups: frozenset[str] = frozenset()
    since_ms: int | None = None
    top: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted of an analysis: Parquet files in the folder or URL `out`, CSV files in the
    folder `csv`, an HTML page in the file `report`, lines of JSON instead of text, and a choice
    of rows. `partition` is that of segments in no partition folder. `rebuild`: make what `out` has
    anew. `workers` is how many processes run it. `origin`: the cluster of which the paths are a
    copy, which a report names.
    """

    out: Path | str | None = None
    csv: Path | None = None
    report: Path | None = None
    as_json: bool = False
    partition: int | None = None
    workers: int | None = None
    rebuild: bool = False
    origin: str | None = None
    choice: Choice = field(default_factory=Choice)

    @property
    def asks(self) -> bool:
        """Whether questions are answered: where the answers are kept."""
        return self.out is not None or self.report is not None
