"""Writes and reads the truth of a run: a Parquet file for each table, and `truth.json` about all.

Times are Unix milliseconds in columns that end in `_ms`. Not here: what the columns mean, which is
in scribe.py.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER: Final = "truth"
ABOUT: Final = "truth.json"
_TEXT, _LONG, _REAL, _YES = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _schema(text: str = "", long: str = "", real: str = "", yes: str = "") -> dict[str, Any]:
    kinds = ((text, _TEXT), (long, _LONG), (real, _REAL), (yes, _YES))
    return {name: kind for names, kind in kinds for name in names.split()}


SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    name: pa.schema(list(columns.items()))
    for name, columns in {
        "groups": _schema(
            "group topic assignor software",
            "number partition partitions members session_ms rebalance_ms",
            "commit_s rate",
            "is_static is_cooperative",
        ),
        "rounds": {
            **_schema(
                "group cause by_client_id by_host by_instance by_software outcome last_client_id",
                "started_ms incident generation ended_ms join_ended_ms members held_ms partitions "
                "revoked",
            ),
            "more_causes": pa.list_(_TEXT),
        },
        "sessions": _schema(
            "group client_id host software instance member how",
            "from_ms heard_ms last_commit_ms until_ms",
            "",
            "is_static",
        ),
        "ownership": _schema("group topic client_id member", "partition from_ms until_ms"),
        "refusals": _schema("group client_id host member api error", "at_ms"),
        "incidents": _schema("group kind subject numbers", "number from_ms until_ms"),
        "replacements": _schema("group instance client_id host old_member member", "at_ms"),
        "coordinators": _schema("how", "shard from_ms until_ms"),
        "deletions": _schema("group", "at_ms"),
        "commits": _schema("group client_id", "partition hour_ms commits quiet"),
        "paces": _schema("group client_id", "from_ms pace_ms"),
    }.items()
}


def write(folder: Path, tables: Mapping[str, list[dict[str, Any]]], about: dict[str, Any]) -> None:
    """Write all tables; what is there already is replaced."""
    truth = folder / FOLDER
    truth.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        plain = [
            {
                key: json.dumps(value) if isinstance(value, dict) else value
                for key, value in row.items()
            }
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(plain, SCHEMAS[name]), truth / f"{name}.parquet")
    (folder / ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Name -> rows of the truth that was written to a folder, as they were before."""
    tables = {
        name: pq.read_table(folder / FOLDER / f"{name}.parquet", schema=schema).to_pylist()
        for name, schema in SCHEMAS.items()
    }
    for row in tables["incidents"]:
        row["numbers"] = json.loads(row["numbers"])
    return tables
