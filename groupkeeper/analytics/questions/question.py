"""Defines a question: its SQL text and the meaning of its answer. `registry.ask` runs it.

Texts use what both engines read: names in double quotes, and the functions of Spark that
`registry.MACROS` defines for DuckDB. They read the views of VIEWS, not the tables themselves.

Each table has a view with the columns of the table, times as Unix milliseconds, and

- `known_from`, `read_from`, `read_until`: the coverage of the log partition of the row (table
  `coverage`); rows that ended before `known_from` are left out;
- `source` and `confidence`, always;
- columns that several questions need: see `_MORE`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from groupkeeper.analytics.schemas import ENDS, EVENTS, LOG, TABLES, TIME, Column, Table, columns_of
from groupkeeper.protocol.group_events import TOPIC

# Any: a pyarrow.Table or a DataFrame of Spark; mypy follows neither.
Frame = Any
QuestionTables = Mapping[str, Frame]
Parameters = Mapping[str, float]

EVIDENCE: Final = 20
"""Maximum number of log offsets in the evidence of a row; the first ones."""
_SETTING: Final = re.compile(r"(\w+)=([\d.]+)")
_COMMON: Final = f"""\
source text: `events`; `log` if any of it was inferred from the offsets log.
confidence real: The lowest confidence of the underlying rows, 0 to 1.
known_from time: The row is not about earlier times; null if there is no limit.
group text: Group id.
member text: Member id.
instance text: `group.instance.id`; null for a dynamic member.
client_id text: `client.id`; null if unknown.
host text: Address; null if unknown.
software text: Name and version of the client library; null if unknown.
topic text: Topic.
topic_partition int: Partition of the topic.
partition int: Partition of the log that holds the evidence.
evidence longs: Log offsets of the evidence, the first {EVIDENCE}.
cause text: Code of the first cause (docs/events.md); `unknown`: not found.
likely text: Probable reason; null without evidence.
rank int: 1 is the most frequent cause.
groups long: Number of groups.
who text: Client that began most of them: instance id or client id; null if none did.
who_rounds long: How many of them this client began.
duration_ms long: Sum of their durations.
unowned_ms long: Sum over partitions of the time without an owner meanwhile.
silent_ms long: The longest time from a last request to the end of the session.
away_ms long: The longest time until the client came back; null if it did not.
session_timeout_ms long: `session.timeout.ms` of most of these sessions.
rebalance_timeout_ms long: The same for `max.poll.interval.ms`.
connection text: `open` or `closed` at the end of most of them; null if unknown."""
COMMON: Final = {each.name: each for each in columns_of(_COMMON, {})}
"""Columns common to several answers, by name."""
SURE: Final = (*COMMON.values(),)[:3]
"""The last columns of every answer."""
_READ: Final = re.compile(r"\b(from|join) ([a-z_]+)\b(?!\()")
_PARAMETER: Final = re.compile(r":([a-z_]+)")


@dataclass(frozen=True)
class Question:
    """One question. `meaning`: one sentence on what to look for; `definition`: the exact meaning of
    a row. `sql` is empty if a Python function answers the question.
    """

    name: str
    title: str
    meaning: str
    definition: str
    columns: tuple[Column, ...]
    """Including `SURE`."""
    sources: frozenset[str]
    """Tables, and other questions, that the question reads."""
    parameters: Parameters = field(default_factory=dict)
    """Names with defaults."""
    sql: str = field(default="", repr=False)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(each.name, each.type) for each in self.columns])

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(name for name in VIEWS if name in self.sources)

    def text(self, parameters: Parameters) -> str:
        """The SQL with parameter values filled in; parameters of other questions are ignored."""
        values = {**self.parameters, **parameters}
        return _PARAMETER.sub(lambda found: repr(values[found[1]]), self.sql)

    def table(self, found: pa.Table) -> pa.Table:
        """Convert the SQL's result, with times in Unix ms, to the types of the schema."""
        return pa.table({each.name: _cast(found[each.name], each) for each in self.columns})


def _cast(found: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if column.type == TIME:
        return found.cast(pa.int64()).cast(TIME)
    made = found.cast(column.type)
    return made.fill_null(pa.scalar([], column.type)) if pa.types.is_list(column.type) else made


def placed(text: str, names: Mapping[str, str]) -> str:
    """Replace relation names in a text."""
    return _READ.sub(lambda found: f"{found[1]} {names.get(found[2], found[2])}", text)


def question(name: str) -> Question:
    """Load the question `<name>.sql` of this folder. It begins with comments in parts, separated by
    empty comments: title and meaning; definition; parameters and columns.
    """
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    head = [*takewhile(lambda line: line.startswith("--"), text.splitlines(keepends=True))]
    (title, *meaning), definition, told = (
        [line.removeprefix("-- ") for line in part.splitlines()]
        for part in "".join(head).split("--\n")
    )
    sql = text.removeprefix("".join(head))
    parameters = {}
    if "=" in told[0]:
        parameters = {key: json.loads(value) for key, value in _SETTING.findall(told.pop(0))}
    columns = (*columns_of("\n".join(told), COMMON), *SURE)
    read = frozenset(found[2] for found in _READ.finditer(sql)) - {name}
    about = " ".join(meaning), " ".join(definition)
    return Question(name, title, *about, columns, read, parameters, sql)


_UNBOUND: Final = frozenset({"events", "commits", "assignments", "snapshots"})
VIEWS: Final[Mapping[str, Table]] = {
    **{name: table for name, table in TABLES.items() if name not in _UNBOUND},
    ENDS.name: ENDS,
}
"""Tables that questions read; `coverage` is read by the views of the others. Tables with a row for
each record or event are none of them, as they have no bound: `commit_minutes` sums up `commits`."""
_ENDS: Final = {"rounds": "ended", "ownership": "until", "sessions": "until", "refusals": "time",
                "members": "time", "commit_minutes": "last_time"}  # fmt: skip
"""Column with the end of a row. Views of other tables have all rows."""
_ALIVE: Final = "(t.until is not null or t.ended_by is null)"
"""The session is open, or its end is known."""


def _client(prefix: str = "") -> str:
    """Return SQL for the identity of a client over its restarts."""
    instance, client, host, member = (
        f"t.{prefix}{name}" for name in ("instance", "client_id", "host", "member")
    )
    return (
        f"coalesce(nullif({instance}, ''), case when {client} <> '' then concat({client}, ' on ', "
        f"coalesce({host}, '')) end, nullif({member}, ''))"
    )


OFFSETS_TOPIC: Final = "__consumer_offsets"
_UNTIL: Final = "coalesce(unix_millis(t.until), c.read_until)"
_MORE: Final[Mapping[str, Mapping[str, str]]] = {
    "rounds": {
        "began": "coalesce(unix_millis(t.started), unix_millis(t.ended))",
        "by_client": _client("by_"),
        "last_client": _client("last_"),
    },
    "ownership": {"from": 'greatest(unix_millis(t."from"), c.known_from)'},
    "sessions": {
        "client": _client(),
        "alive_from": f"case when {_ALIVE} then least({_UNTIL}, greatest(coalesce("
        f'unix_millis(t."from"), c.read_from), c.known_from)) end',
        "alive_until": f"case when {_ALIVE} then {_UNTIL} end",
    },
    "refusals": {"first": "coalesce(unix_millis(t.first), unix_millis(t.time))"},
}
"""Table -> column -> SQL, added to or replacing a column of the table. `began`: start of a
rebalance, or its end if the start was not read. `client`: identity over restarts. `alive_from`,
`alive_until`: the known part of a session; null if it ended at an unknown time."""

REACH: Final = (
    "select log, partition, case when known_from_offset = 0 then null "
    'else unix_millis(known_from) end as known_from, unix_millis("from") as read_from, '
    "unix_millis(until) as read_until from given_coverage"
)
"""Coverage of each partition of a log. A partition complete from its first record on has no limit:
that record may be later than what it describes."""


def view(name: str, *, is_covered: bool) -> str:
    """Return the SQL of the view of a table. It reads the relations `given`, the table, and
    `reach`. Without `coverage` all rows are included, and the newest row marks the end of reading.
    """
    columns = VIEWS[name].columns
    texts = {
        each.name: f't."{each.name}"' if each.type != TIME else f'unix_millis(t."{each.name}")'
        for each in columns
    }
    if "source" not in texts:
        texts |= {"source": f"'{EVENTS if name == 'refusals' else LOG}'", "confidence": "1.0"}
    texts |= _MORE.get(name, {})
    selected = ", ".join(f'{text} as "{column}"' for column, text in texts.items())
    kept = 't."from" is not null' if name == "ownership" else "true"
    if is_covered and name in _ENDS:
        end = f"unix_millis(t.{_ENDS[name]})"
        return (
            f"select {selected}, c.known_from, c.read_from, c.read_until from given as t left join "
            f"reach as c on c.partition = t.partition and c.log = {_log_of(name, texts)} "
            f"where {kept} and coalesce({end} >= c.known_from, true)"
        )
    times = [f'unix_millis("{each.name}")' for each in columns if each.type == TIME]
    unknown = "cast(null as bigint) as known_from, cast(null as bigint) as read_from"
    return (
        f"select {selected}, c.* from given as t cross join "
        f"(select {unknown}, max(greatest(0, {', '.join(times)})) as read_until from given) as c "
        f"where {kept}"
    )


def _log_of(name: str, texts: Mapping[str, str]) -> str:
    """Return SQL for the log that the rows of a table come from."""
    if name == "refusals":
        return f"'{TOPIC}'"
    return f"case when {texts['source']} = '{EVENTS}' then '{TOPIC}' else '{OFFSETS_TOPIC}' end"
