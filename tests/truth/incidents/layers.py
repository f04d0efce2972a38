"""What the product tells about a group, layer by layer, as pairs and sentences.

`live` is `groupkeeper why` against the running server; `events` and `plain` are the analysis of a
copy of its data directory, with and without the stored events.
"""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.support.process import PROGRAM, ROOT, Server

LIVE, EVENTS, PLAIN = "live", "events", "plain"
LAYERS: Final = (LIVE, EVENTS, PLAIN)
UNKNOWN: Final = "unknown"
NONE: Final = "-"
_WHY_S: Final = 120
_LATER_MS: Final = 500
"""A record is stamped a little later than the event about it. Whoever begins to count has waited
until nothing moved for longer than this.
"""
_analysing = threading.Lock()
"""One analysis at a time: each takes a core."""
_CAUSED: Final = frozenset({"member_removed", "rebalance_started", "rebalance_cause_added"})
"""Types of events whose cause is what they tell."""


@dataclass(slots=True)
class Heard:
    """What one layer tells. Pairs are of a code and a reason, sentences are texts for people."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Layers:
    """Reads all layers of one group, from a moment on."""

    def __init__(self, server: Server, partitions: int) -> None:
        self._server, self._partitions = server, partitions
        self._since_ms = 0
        self.group = ""

    def begin(self, group: str) -> None:
        """Count from here on."""
        self.group = group
        rows = self._why()
        self._since_ms = max([0, *(_end_ms(each) for each in rows)]) + _LATER_MS

    def hear(self, copy: Path) -> dict[str, Heard]:
        """Read all layers; the logs from a copy of the data directory, which is made there."""
        live = heard_live(self._why(), self._since_ms)
        shutil.copytree(self._server.data_dir, copy)
        with _analysing:
            return {
                LIVE: live,
                EVENTS: self._analysed(copy, events=True),
                PLAIN: self._analysed(copy, events=False),
            }

    def advice(self) -> list[str]:
        """What `groupkeeper why` advises."""
        rows = [each for each in self._why() if each.get("kind") not in {"live", "event"}]
        return [each["advice"] for each in rows if each.get("advice") and self._counts(each)]

    def _counts(self, row: Mapping[str, Any]) -> bool:
        return _end_ms(row) > self._since_ms

    def _why(self) -> list[dict[str, Any]]:
        server = self._server
        where = ("--bootstrap-server", server.bootstrap, "--http", server.http)
        command = [*PROGRAM, "why", self.group, "--json", "--last", "100000", *where]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_WHY_S, check=False
        )
        if done.returncode and not done.stdout and "no group" not in done.stderr.lower():
            raise RuntimeError(f"why ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def _analysed(self, data: Path, *, events: bool) -> Heard:
        from tests.weeks.analysed import asked_of  # loads pyarrow and numba

        answers = asked_of(data, events=events, workers=1)
        tables = {name: answers[name].to_pylist() for name in _READ}
        return heard_analysed(tables, self.group, self._since_ms)


_READ: Final = ("rounds", "sessions", "events", "findings")


def _end_ms(row: Mapping[str, Any]) -> int:
    """When an entry of `why --json` ended."""
    return row.get("ended_at_ms") or row.get("at_ms") or row.get("started_at_ms") or 0


def heard_live(rows: Iterable[Mapping[str, Any]], since_ms: int) -> Heard:
    """What `why --json` tells."""
    heard = Heard()
    for row in rows:
        if row.get("kind") == "live" or _end_ms(row) <= since_ms:
            continue
        if row["kind"] == "event":
            heard.sentences += [row["text"]]
            if row.get("cause"):
                heard.pairs += [_cause(row["cause"])]
            heard.events += [(row["type"], NONE if row.get("cause") else _reason(row))]
            continue
        removed = (each.get("cause") for each in row.get("removed") or ())
        heard.pairs += map(_cause, (row["cause"], *(row.get("more_causes") or ()), *removed))
        for each in row.get("replaced") or ():
            heard.events += [("member_replaced", _reason(each))]
        heard.sentences += [row["text"], row.get("advice") or ""]
    return heard


def heard_analysed(tables: Mapping[str, list[dict[str, Any]]], group: str, since_ms: int) -> Heard:
    """What tables and findings of an analysis tell."""
    heard = Heard()
    for row in _later(tables["rounds"], group, "ended", since_ms):
        heard.pairs += [(row["cause"] or UNKNOWN, row["likely"] or NONE)]
        heard.pairs += [(code, NONE) for code in row["more_causes"] or ()]
    for row in _later(tables["sessions"], group, "until", since_ms):
        if row["ended_by"] and row["until"] is not None:
            code, reason = row["ended_by"], row["likely"] or NONE
            ends = heard.events if code == "replaced" else heard.pairs
            ends += [("member_replaced" if code == "replaced" else code, reason)]
    for row in tables["events"]:
        if row["group"] in {group, None} and _ms(row["time"]) > since_ms:
            told = (row["cause"] or UNKNOWN, row["likely"] or NONE)
            heard.pairs += [told] if row["type"] in _CAUSED else []
            heard.events += [(row["type"], NONE if row["cause"] else told[1])]
    heard.sentences = [_finding(each) for each in tables["findings"] if each["group"] == group]
    return heard


def _finding(row: Mapping[str, Any]) -> str:
    told = f"[{row['severity']}] {row['sentence']}"
    return f"{told} ({row['config_key']}={row['proposed']})" if row["config_key"] else told


def _later(
    rows: Iterable[dict[str, Any]], group: str, column: str, since_ms: int
) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["group"] == group and (row[column] is None or _ms(row[column]) > since_ms):
            yield row


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _cause(cause: Mapping[str, Any] | None) -> tuple[str, str]:
    return ((cause or {}).get("code") or UNKNOWN, _reason(cause or {}))


def _reason(fields: Mapping[str, Any]) -> str:
    return fields.get("likely") or (fields.get("cause") or {}).get("likely") or NONE
