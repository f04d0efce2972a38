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
from groupkeeper.why.texts import count, size, span, time_text

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
FULL_SERVER: Final = (
    "partitions close; make room, or lower log.retention.bytes or "
    "group.events.retention.total.bytes"
)
FULL_OBSERVER: Final = "the observer ends; make room"
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
    ("observer", "losses", "times records were lost before they were read: see `history is lost`"),
    ("observer", "records_unreadable", "records or batches: see `records cannot be read`"),
    ("observer", "groups_dropped", "groups were dropped: see `limit reached`"),
)
"""Numbers that are 0 unless something is wrong."""


@click.command(short_help="Show whether a server is ready, and what needs attention.")
@http_options(HTTP, "The server's HTTP port.")
@CONFIG
@json_rows("The server's answer, as one JSON object.")
def status(http: HttpTarget, config: Path | None, as_json: bool) -> int:
    """Show whether a server is ready, and what needs attention: loop, disk, appends, events.

    Of an observer it shows what it has read, since when causes are known, and for how long the
    cluster cannot be read. Counts are since the start; times are upper bounds.

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
    if "ready" not in found and "error" in found:
        raise CommandRefused(f"{where} is not ready: {found['error']}")
    if "ready" not in found:
        raise CommandRefused(f"{where} is not the HTTP port of this version of Groupkeeper")
    return found


def _lines(found: dict[str, Any]) -> Iterator[str]:
    states = ", ".join(f"{number} {state}" for state, number in found["partitions"].items())
    is_ready = "ready" if found["ready"] else "NOT READY"
    observes = found.get("observes")
    who = f"node {found['node']}" if observes is None else f"observer, by {observes},"
    rows = _of_server(found) if observes is None else _of_observer(found)
    yield f"{is_ready}: {who} of cluster {found['cluster']}, {found['version']}"
    for name, value in {"partitions": states or "none", **rows}.items():
        yield f"  {name:<12} {value}"


def _of_server(found: dict[str, Any]) -> dict[str, str]:
    disk, appends, connections = found["disk"], found["appends"], found["connections"]
    compaction = found["compaction"]
    quick = f", 99 % within {_ms(appends['p99_ms'])}" if appends["flushes"] else ""
    return {
        "disk": f"{_room(disk)}; journals {size(disk['journals_bytes'])}, "
        f"groups {size(disk['groups_bytes'])}, events {size(disk['events_bytes'])}, "
        f"topics {size(disk['topics_bytes'])}",
        "appends": f"{appends['flushes']} flushes{quick}, {appends['failures']} failed",
        "loop": _loop(found["loop"]),
        "compaction": f"{compaction['runs']} runs, {compaction['failures']} failed",
        "events": _events(found["events"]),
        "connections": f"{connections['open']} open, {connections['refused']} refused",
    }


def _of_observer(found: dict[str, Any]) -> dict[str, str]:
    disk, observer = found["disk"], found["observer"]
    since_ms = observer["causes_known_since_ms"]
    known = "from the first record on" if since_ms is None else f"since {time_text(since_ms)}"
    return {
        "records": f"{observer['records_read']} read, {observer['records_left']} left",
        "causes": f"known {known}",
        "disk": f"{_room(disk)}; journals {size(disk['journals_bytes'])}, "
        f"events {size(disk['events_bytes'])}",
        "loop": _loop(found["loop"]),
        "events": _events(found["events"]),
    }


def _room(disk: dict[str, int]) -> str:
    return f"{size(disk['free_bytes'])} of {size(disk['total_bytes'])} free"


def _loop(loop: dict[str, Any]) -> str:
    longest = f"longest iteration {_ms(loop['longest_ms'])}"
    return f"{longest}, {loop['over_20_ms']} of {loop['iterations']} over 20 ms"


def _events(events: dict[str, int]) -> str:
    return f"{events['written']} written, {events['dropped']} dropped"


def findings(found: dict[str, Any]) -> Iterator[str]:
    """Yield what needs attention, with advice."""
    for each in found["not_active"]:
        why = f" ({each['reason']})" if each["reason"] else ""
        yield f"partition {each['partition']} is {each['state']}{why}: {ADVICE[each['state']]}"
    disk = found["disk"]
    if 0 <= disk["free_bytes"] < LITTLE_ROOM * disk["total_bytes"]:
        then = FULL_OBSERVER if "observer" in found else FULL_SERVER
        yield f"{size(disk['free_bytes'])} are left on the disk: when it is full, {then}"
    yield from _observer_findings(found) if "observer" in found else _server_findings(found)
    for section, key, advice in COUNTED:
        if found.get(section, {}).get(key):
            yield f"{section}: {found[section][key]} {advice}"
    for limit, times in found["limits_reached"].items():
        yield f"limit {limit} was reached {times} times: the line `limit reached` names the client"


def _server_findings(found: dict[str, Any]) -> Iterator[str]:
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


def _observer_findings(found: dict[str, Any]) -> Iterator[str]:
    unread = found["unread"]
    if unread is not None:
        yield (
            f"{count(unread['partitions'], 'partition')} of the cluster could not be read for "
            f"{span(unread['for_ms'])}: the line `partitions cannot be read` names the cause"
        )


def _ms(ms: float | None) -> str:
    return "more than all bounds" if ms is None else f"{ms:g} ms"
