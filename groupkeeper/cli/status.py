"""`groupkeeper status`: whether a server is ready, and what needs attention, on one screen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.http_port import PROBLEMS, HttpTarget, NoAccess, ask_json, hint, http_options
from groupkeeper.cli.options import CONFIG, HTTP, json_rows
from groupkeeper.why.texts import size

TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 1024 * 1024
LITTLE_ROOM: Final = 0.1
"""Share of the file system that should be free."""
LONG_ITERATION_MS: Final = 100
LONG_COMPACTION_S: Final = 120
"""A compaction of a full log takes about a minute."""
ADVICE: Final = {
    "loading": "wait: its log is being read",
    "closed": "it is retried automatically, and opens once the cause is fixed",
    "absent": "another process owns it: stop the unintended one, then restart this one",
    "draining": "the server is stopping",
}
"""Advice by the state of a partition."""

COUNTED: Final = (
    ("appends", "failures", "failed: lines of the logger `partition` name the cause"),
    ("compaction", "uncleanable_logs", "logs are damaged: see the line `log cannot be compacted`"),
    (
        "compaction",
        "hung",
        "made no progress and were killed: check the disk, and see `compaction failed`",
    ),
    (
        "compaction",
        "failures",
        "failed, and logs grow: the line `compaction failed` names the cause",
    ),
    (
        "events",
        "dropped",
        "dropped, so `groupkeeper why` has gaps: a limit, or `events are not stored`",
    ),
    ("events", "logs_closed", "times a log failed and was reopened: see `events are not stored`"),
    ("connections", "unaccepted", "not accepted: raise the limit of open files (ulimit -n)"),
    ("connections", "refused", "refused: max.connections or max.connections.per.ip is reached"),
)
"""Numbers that are 0 unless something is wrong."""


@click.command(short_help="Show whether a server is ready, and what needs attention.")
@http_options(HTTP, "The server's HTTP port.")
@CONFIG
@json_rows("The server's answer, as one JSON object.")
def status(http: HttpTarget, config: Path | None, as_json: bool) -> int:
    """Show whether a server is ready, and what needs attention: loop, disk, appends, events.

    Counts are since the start of the server; times are upper bounds.

    \b
      groupkeeper status
      groupkeeper status --http kafka.example:9644 --json | jq .disk
      groupkeeper status --http https://kafka.example:9644 --http-ca ca.pem --http-token-file token

    The exit code is 1 if the server is not ready, or does not answer.
    """
    found = _ask(http)
    if as_json:
        print(json.dumps(found))
    else:
        print("\n".join([*_lines(found), *(f"  ! {each}" for each in findings(found))]))
    return 0 if found["ready"] else FAILED


# Any: JSON.
def _ask(port: HttpTarget) -> dict[str, Any]:
    where = port.where
    try:
        _, found = ask_json(port, "/status", TIMEOUT_S, MOST_BYTES)
    except NoAccess as refused:
        raise CommandRefused(refused.line) from None
    except PROBLEMS as problem:
        raise CommandRefused(
            f"no Groupkeeper answers at {where} ({problem!r}): start it, "
            f"or name its HTTP port with --http{hint(port, problem)}"
        ) from None
    if "ready" not in found:
        raise CommandRefused(f"{where} is not the HTTP port of this version of Groupkeeper")
    return found


def _lines(found: dict[str, Any]) -> Iterator[str]:
    disk, loop, appends = found["disk"], found["loop"], found["appends"]
    events, connections, compaction = found["events"], found["connections"], found["compaction"]
    states = ", ".join(f"{count} {state}" for state, count in found["partitions"].items())
    quick = f", 99 % within {_ms(appends['p99_ms'])}" if appends["flushes"] else ""
    rows = {
        "partitions": states or "none",
        "disk": f"{size(disk['free_bytes'])} of {size(disk['total_bytes'])} free; "
        f"journals {size(disk['journals_bytes'])}, groups {size(disk['groups_bytes'])}, "
        f"events {size(disk['events_bytes'])}, topics {size(disk['topics_bytes'])}",
        "appends": f"{appends['flushes']} flushes{quick}, {appends['failures']} failed",
        "loop": f"longest iteration {_ms(loop['longest_ms'])}, {loop['over_20_ms']} of "
        f"{loop['iterations']} over 20 ms",
        "compaction": f"{compaction['runs']} runs, {compaction['failures']} failed",
        "events": f"{events['written']} written, {events['dropped']} dropped",
        "connections": f"{connections['open']} open, {connections['refused']} refused",
    }
    is_ready = "ready" if found["ready"] else "NOT READY"
    observes = found.get("observes")
    who = f"node {found['node']}" if observes is None else f"observer, by {observes},"
    yield f"{is_ready}: {who} of cluster {found['cluster']}, {found['version']}"
    for name, value in rows.items():
        yield f"  {name:<12} {value}"


def findings(found: dict[str, Any]) -> Iterator[str]:
    """Yield what needs attention, with advice."""
    for each in found["not_active"]:
        why = f" ({each['reason']})" if each["reason"] else ""
        yield f"partition {each['partition']} is {each['state']}{why}: {ADVICE[each['state']]}"
    disk = found["disk"]
    if 0 <= disk["free_bytes"] < LITTLE_ROOM * disk["total_bytes"]:
        yield (
            f"{size(disk['free_bytes'])} are left on the disk: when it is full, partitions close; "
            "make room, or lower log.retention.bytes or group.events.retention.total.bytes"
        )
    if found["events"]["wait_for_room"]:
        yield (
            "events are not stored: less than group.events.min.free.bytes is left on the disk; "
            "groups are served all the same"
        )
    longest = found["loop"]["longest_ms"]
    if found["loop"]["iterations"] and (longest is None or longest > LONG_ITERATION_MS):
        yield f"an iteration took up to {_ms(longest)}: the line `slow request` names what did"
    runs_for = found["compaction"]["running_s"]
    if runs_for > LONG_COMPACTION_S:
        yield (
            f"compaction: one has been running for {runs_for:.0f} s: the disk or the processor is "
            "busy; it is killed if it makes no progress at all"
        )
    for section, key, advice in COUNTED:
        if found[section][key]:
            yield f"{section}: {found[section][key]} {advice}"
    for limit, count in found["limits_reached"].items():
        yield f"limit {limit} was reached {count} times: the line `limit reached` names the client"


def _ms(ms: float | None) -> str:
    return "more than all bounds" if ms is None else f"{ms:g} ms"
