"""The views that questions read, one of each table, as SQL that DuckDB and Spark read.

A view has the columns of its table, with times as Unix milliseconds, and
- `known_from`, `read_from`, `read_until`: what is known of the partition of the log that a row is
  from (table `coverage`); rows that were over before `known_from` are left out;
- `source` and `confidence` in each;
- what several questions need: see `_MORE`.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.analytics.schemas import EVENTS, LOG, TABLES, TIME
from groupkeeper.protocol.group_events import TOPIC

VIEWS: Final = tuple(
    name for name in TABLES if name not in {"events", "commits", "assignments", "snapshots"}
)
"""Tables that questions read; `coverage` is read by the views of the others."""
_ENDS: Final = {"rounds": "ended", "ownership": "until", "sessions": "until", "refusals": "time",
                "members": "time", "commit_minutes": "last_time"}  # fmt: skip
"""When a row is over. Views of other tables have all rows."""
_ALIVE: Final = "(t.until is not null or t.ended_by is null)"
"""It is known when a session ended, or it goes on."""


def _client(prefix: str = "") -> str:
    """What stays the same over the restarts of a client."""
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
"""Table -> column -> how it is made, also instead of its own column of this name. `began`: when a
rebalance began, or if that was not read, ended. `client`: what stays the same over the restarts of
a client. `alive_from`, `alive_until`: of a session as far as it was read; null if it ended at a
time that is not known.
"""

REACH: Final = (
    "select log, partition, case when known_from_offset = 0 then null "
    'else unix_millis(known_from) end as known_from, unix_millis("from") as read_from, '
    "unix_millis(until) as read_until from given_coverage"
)
"""What is known of each partition of a log. One that is whole from its first record on has no
limit: that record may be written after what it tells.
"""


def view(name: str, *, is_covered: bool) -> str:
    """The text of the view of a table. It reads the relations `given`, the table, and `reach`.
    Without `coverage` all rows are known, and what was read ended with the newest of them.
    """
    columns = TABLES[name].columns
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
    """The log in which the rows of a table are."""
    if name == "refusals":
        return f"'{TOPIC}'"
    return f"case when {texts['source']} = '{EVENTS}' then '{TOPIC}' else '{OFFSETS_TOPIC}' end"
