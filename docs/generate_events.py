"""Writes docs/events.md from the tables of the format of group events; `--check` only compares."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from generated import run

from groupkeeper.protocol.group_event_types import CAUSE, TYPES, WHO
from groupkeeper.protocol.group_event_words import CODES, EVIDENCE, LIKELY, Word
from groupkeeper.protocol.group_events import ENVELOPE, INFERRED, SEEN_START, SHORTENED, TOPIC

PAGE = Path(__file__).with_name("events.md")

HEAD = f"""\
# Group events

*Generated from `protocol/group_events.py`, `protocol/group_event_types.py` and
`protocol/group_event_words.py` by `make docs`; edit there.*

What happened to consumer groups, and why, as it is stored: for those who read the topic
`{TOPIC}`, and for those who want to know what a cause means and what to do about it.

A record's key is the group id in UTF-8, its value one JSON object in UTF-8, and its time the time
of the event. Types and fields may be added: skip what you do not know. Times are milliseconds.
"""

FIELDS = "\n| field | JSON | meaning |\n|---|---|---|"

INFERRED_HEAD = """
An event that no coordinator stored, but that was inferred from records, has `source` and
`confidence`. If an observer stored it ([observe.md](observe.md)), `epoch` is 0, `seq` its offset in
the log of events, `node` -1, and `mono_ms` the offset of the record that it was inferred from; a
`rebalance_started` may have the other two.
"""

WHO_HEAD = """
### Who

A field of type *who* is a member, or a client that sent a request: an object with these fields.
"""

CAUSE_HEAD = """
### Cause

A field of type *cause* is an object with these fields.
"""

LEFT_OUT = """
## What is left out

Events are left out beyond limits of bytes, of which
[operations.md](operations.md#what-one-client-may-do) has the numbers: of a host, a group, a
partition and all; beyond 100 in a second of one host and client id in one group; while less than
`group.events.min.free.bytes` is free on the disk; and while their log cannot be written. A host is
an address: all clients behind one NAT, proxy or node share one limit, whatever their client ids
and groups. What `events_dropped` counts is then of all of them. Limits begin anew with the process.

How many were left out is counted in memory. The next `events_dropped` tells it: at most a second
later; when the disk has room again, or the log can be written; and at the latest before
`coordinator_closed`. A process that ends without this event (`kill -9`, power, a disk that fails),
or stops while events cannot be stored, takes with it

| what | since |
|---|---|
| how many events were left out | the last `events_dropped` |
| events of steps that wrote no record of a group | up to 0.1 s before |
| commits that are summed up | up to a minute before |
| stale requests that are summed up | up to 10 s before |

Readers know it by a `coordinator_loaded` without a `coordinator_closed` since the one before: what
is missing between is not known. A copy of the count that does not end with the
process is `groupkeeper_events_dropped_total`, in whatever collects [metrics](metrics.md).
"""

CODES_HEAD = """
## Causes

The codes of causes are also the label `cause` of metrics and the field `cause` of log lines.

| code | what happened | what to do |
|---|---|---|"""

LIKELY_HEAD = """
## Likely

What probably is behind a code. It is given only with evidence.

| likely | what happened | what to do |
|---|---|---|"""

EVIDENCE_HEAD = """
## Evidence

The numbers behind `code` and `likely`; a cause has those that apply.

| field | meaning |
|---|---|"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    yield "## Every event"
    yield from _table(ENVELOPE)
    yield f"\nLong lists are cut: then `{SHORTENED}` has the name of each, and how long it was."
    yield INFERRED_HEAD.rstrip("\n")
    yield from _table({**INFERRED, **SEEN_START})
    yield WHO_HEAD.rstrip("\n")
    yield from _table(WHO)
    yield CAUSE_HEAD.rstrip("\n")
    yield from _table(CAUSE)
    yield "\n## Types"
    for name, each in TYPES.items():
        yield f"\n### {name}\n\n{each.meaning}"
        yield from _table(each.fields)
    yield LEFT_OUT.rstrip("\n")
    yield CODES_HEAD
    yield from _words(CODES)
    yield LIKELY_HEAD
    yield from _words(LIKELY)
    yield EVIDENCE_HEAD
    yield from (f"| `{name}` | {meaning} |" for name, meaning in EVIDENCE.items())


def _table(fields: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield FIELDS
    yield from (f"| `{name}` | {kind} | {meaning} |" for name, (kind, meaning) in fields.items())


def _words(words: Mapping[str, Word]) -> Iterator[str]:
    yield from (f"| `{code}` | {each.meaning} | {each.advice} |" for code, each in words.items())


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
