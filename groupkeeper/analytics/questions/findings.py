"""Findings: what to look at first, in sentences, with the number to change.

Each is made of one or some rows of an answer; every number in a sentence is of these rows, or of
the advice that `groupkeeper why` gives about them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import chain
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.questions.finders import FINDERS, HOLDS, RESTARTS, UNSTABLE
from groupkeeper.analytics.questions.finding import (
    SEVERITIES,
    Finding,
    Row,
    agreed,
    as_one,
    asked_of,
)
from groupkeeper.analytics.questions.question import EVIDENCE, SURE
from groupkeeper.analytics.schemas import INT, LONG, REAL, TEXT, TIME, Column

OFTEN: Final = 10.0
"""So many rebalances a day are worth a finding, if no storm has most of them."""
SKEWED: Final = 2.0
"""The same for a member with this many times its share."""
BEHIND_MS: Final = 300_000
"""The same for a lag of this age at the end."""
EAGER_MS: Final = 60_000
"""The same for an eager group that cost this much time of partitions."""
_USED: Final = (*FINDERS, "causes")
"""The answers that findings are made of."""
_OFTEN: Final = f"per_day >= {OFTEN} and rounds >= {OFTEN}"
_IDLE: Final = "share > 0.5"
WORTH: Final[Mapping[str, str]] = {
    **dict.fromkeys(_USED, "true"),
    "barrier": f"held >= {HOLDS}",
    "restart_gaps": f"restarts >= {RESTARTS}",
    "not_stable": f"share >= {UNSTABLE} or "
    f'"group" in (select "group" from idle_members where {_IDLE})',
    "rebalance_rate": _OFTEN,
    "causes": f'rank = 1 and "group" in (select "group" from rebalance_rate where {_OFTEN})',
    "idle_members": _IDLE,
    "skew": f"ratio >= {SKEWED} and partitions - fair > 1",
    "cooperative_or_eager": f"not is_cooperative and changes > 0 and unowned_ms >= {EAGER_MS}",
    "lag_seconds": f"now_ms >= {BEHIND_MS}",
}
"""Question -> which rows of its answer findings may be made of, in SQL: the others are of all that
is well, and they are many."""
COLUMNS: Final = (
    Column("id", TEXT, "Stays the same when the same is found again."),
    Column("severity", TEXT, "`critical`, `high`, `medium`, `low` or `info`."),
    Column("group", TEXT, "Group id; null: of no one group."),
    Column("from", TIME, "When it began, of several the one told; null: not known."),
    Column("to", TIME, "When that ended; null: not known."),
    Column("times", LONG, "How many rows of the answer it is made of that say the same."),
    Column("sentence", TEXT, "What was found and what to change, for a person."),
    Column("config_key", TEXT, "The setting to change; null: no setting helps."),
    Column("now", TEXT, "Its value; null: not known."),
    Column("proposed", TEXT, "The value to set."),
    Column("evidence", pa.list_(LONG), f"Log offsets that say so, the first {EVIDENCE}."),
    Column("partition", INT, "Partition of the log in which the evidence is."),
    Column("question", TEXT, "The answer that it is from (docs/analytics-questions.md)."),
    Column("cost_s", REAL, "Partition-seconds that it cost, all times together; null: not known."),
    *SURE,
)
SCHEMA: Final = pa.schema([(each.name, each.type) for each in COLUMNS])


def findings_of(answered: Mapping[str, pa.Table]) -> pa.Table:
    """The findings of the answers to all questions, the worst first; of those that are as bad, the
    most expensive of each question before the second ones.
    """
    rows = {name: _rows(answered[name]) for name in _USED if name in answered}
    found: dict[_Identity, list[Finding]] = defaultdict(list)
    for name, find in FINDERS.items():
        for each in find(rows) if name in rows else ():
            found[_identity(name, each)].append(each)
    asked = asked_of(chain(*found.values()))
    told = {
        identity: agreed(as_one(alike), asked[identity[1]]) for identity, alike in found.items()
    }
    listed = [_listed(*each) for each in _ordered(told.items())]
    columns = [
        pa.array(
            [row.get(each.name) for row in listed], pa.int64() if each.type == TIME else each.type
        ).cast(each.type)
        for each in COLUMNS
    ]
    return pa.table(columns, SCHEMA)


def _rows(table: pa.Table) -> list[Row]:
    columns = [
        table[each.name].cast(pa.int64() if each.type == TIME else each.type).to_pylist()
        for each in table.schema
    ]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


_Identity = tuple[str, str | None, str, str | None, str | None]
"""Question, group, source, setting and kind: what is the same finding, whenever it was."""
_Told = tuple[_Identity, Finding]


def _identity(question: str, each: Finding) -> _Identity:
    setting = each.setting.get("config_key")
    return question, each.row.get("group"), each.row["source"], setting, each.kind


def _ordered(found: Iterable[_Told]) -> list[_Told]:
    """A reader of the first ones is to see of each question what is worst."""
    ranks: Counter[tuple[str, str]] = Counter()
    placed: list[tuple[int, int, int]] = []
    told = sorted(found, key=lambda item: _place(item[1]))
    for number, ((question, *_), each) in enumerate(told):
        placed.append((SEVERITIES.index(each.severity), ranks[each.severity, question], number))
        ranks[each.severity, question] += 1
    return [told[number] for *_, number in sorted(placed)]


def _place(each: Finding) -> tuple[float, int, int]:
    return -(each.cost_s or 0.0), -each.times, each.row.get("from") or 0


def _listed(identity: _Identity, each: Finding) -> Row:
    row, question = each.row, identity[0]
    return {
        **{name: row.get(name) for name in ("group", "from", "partition", "evidence")},
        **{column.name: row[column.name] for column in SURE},
        "id": f"{question}-{sha256(repr(identity).encode()).hexdigest()[:10]}",
        "severity": each.severity,
        "to": row.get("until"),
        "times": each.times,
        "sentence": each.sentence,
        "question": question,
        "cost_s": each.cost_s,
        **each.setting,
    }
