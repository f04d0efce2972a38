"""What a transcript says about causes: its `event:` lines, and whether they came true.

    > wait 30s
    event: rebalance_started cause=session_expired who=SAM-1 likely=crash_or_network

Below a command, behind the answers, stand all events of `__group_events` that it led to, in their
order; a command without such lines says nothing about events, `event: none` that there was none,
and `event: 100 member_rejoined` is so many lines. Only the fields that are written are compared:

    cause likely reason reason_cut    of the cause, or of the event itself
    who by                            the member that the event is about, and whoever caused it
    evidence.NAME                     a number behind the cause
    anything else                     a field of the event or its envelope, of protocol.group_events

A member is named as in answers (`SAM-2`), a client without a member id by its client id. Lists have
commas, `none` is an empty one; times (`_ms`) are durations, to a tenth of a second. The events are
read by Fetch from the partitions of the transcript's groups: those of its groups, and those of
the partition of `g`, as `coordinator_loaded`. Apache Kafka has none, and is not asked.
"""

import difflib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from groupkeeper.protocol.group_events import TOPIC, Event, decode
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.testing.wire.telling import TextNames
from tests.parity.names import RunNames
from tests.parity.people import milliseconds
from tests.parity.player import Dial, call

TOLERANCE_MS = 100
NONE = "none"
_ANSWER_BYTES = 8 << 20
_CAUSE = ("likely", "reason", "reason_cut", "evidence")
_MISSING = "no such field"
_ENDS = {True: "removed", False: "kept"}


async def read(dial: Dial, names: RunNames, partitions: int) -> list[Event]:
    """The events of this run that are stored, those of a partition in their order."""
    home = partition_of(names.real_group("g"), partitions)
    return [
        event
        for index in range(partitions)
        for event in await _partition(dial, index)
        if (event.group or "").startswith(names.prefix) or (event.group is None and index == home)
    ]


async def _partition(dial: Dial, index: int) -> list[Event]:
    events: list[Event] = []
    offset, more = 0, True
    while more:
        place = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=_ANSWER_BYTES
        )
        topic = FetchTopic(topic=TOPIC, partitions=[place])
        request = FetchRequest(max_bytes=_ANSWER_BYTES, topics=[topic])
        answer = (await call(dial, 12, request)).responses[0].partitions[0]
        assert answer.error_code == 0, f"{TOPIC}-{index}: error {answer.error_code}"
        data, more = bytes(answer.records or b""), False
        for header in iter_batches(data):
            for record in decode_records(data, header):
                events.append(decode(record.key, record.value or b""))
                offset, more = record.offset + 1, True
    return events


def by_step(events: Sequence[Event], began_ms: Sequence[int]) -> list[list[Event]]:
    """The events by the command that was the last to begin before them, at that Unix ms."""
    steps: list[list[Event]] = [[] for _ in began_ms]
    for event in events:
        step = sum(began <= event.at_ms for began in began_ms) - 1
        if step >= 0:
            steps[step].append(event)
    return steps


def difference(
    commands: Sequence[str],
    expected: Sequence[Sequence[str]],
    happened: Sequence[Sequence[Event]],
    names: TextNames,
) -> list[str]:
    """The commands that led to other events than those written, each with both texts."""
    lines: list[str] = []
    for command, said, events in zip(commands, expected, happened, strict=True):
        if not said:
            continue
        wanted = [line for each in said if each != NONE for line in _spelled(each)]
        found = _lines(wanted, events, names)
        if found != wanted:
            lines.append(f"  > {command}")
            lines += [f"    {line}" for line in difflib.ndiff(wanted, found) if line[0] != "?"]
    return lines


def parsed(line: str) -> tuple[int, str, dict[str, str]]:
    """How often, type and fields of a line without its `event:`. Raises ValueError."""
    first, *words = shlex.split(line)
    times = int(first) if first.isdigit() else 1
    kind = words.pop(0) if first.isdigit() else first
    pairs = [word.partition("=") for word in words]
    if odd := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"not name=value: {' '.join(odd)}")
    return times, kind, {name: value for name, _, value in pairs}


def _spelled(line: str) -> list[str]:
    """The line with quotes where they are needed, and nowhere else; as often as it says."""
    times, kind, fields = parsed(line)
    return [written(kind, fields)] * times


def written(kind: str, fields: Mapping[str, str]) -> str:
    """A line without its `event:`."""
    return shlex.join([kind, *(f"{name}={value}" for name, value in fields.items())])


def _lines(wanted: Sequence[str], events: Sequence[Event], names: TextNames) -> list[str]:
    """The events as lines: as the written ones where these are true, else with what tells most."""
    lines = []
    for index, event in enumerate(events):
        _, kind, fields = parsed(wanted[index]) if index < len(wanted) else (0, "", {})
        if kind != event.type:
            fields = {name: "" for name in ("who", "cause", "likely", "why") if _has(event, name)}
        found = {name: told(event, name, text, names) for name, text in fields.items()}
        lines.append(written(event.type, found))
    return lines


def _has(event: Event, name: str) -> bool:
    return _value(event, name) not in (None, _MISSING)


def told(event: Event, name: str, wanted: str, names: TextNames) -> str:
    """The event's value as text; of a time the written one, if it is near enough."""
    value = _value(event, name)
    if not name.endswith("_ms") or not isinstance(value, int):
        return _text(value, names)
    near = wanted and wanted != "null" and abs(milliseconds(wanted) - value) <= TOLERANCE_MS
    return wanted if near else f"{value}ms"


def _value(event: Event, name: str) -> Any:
    fields = event.fields
    cause = fields.get("cause", {})
    first, _, rest = name.partition(".")
    if name == "cause":
        return cause.get("code", _MISSING)
    if name == "by":
        return cause.get("who", _MISSING)
    if name == "who":
        return fields.get("who", cause.get("who", _MISSING))
    if first in _CAUSE:
        value = (cause or fields).get(first, _MISSING)
    else:
        value = fields.get(first, getattr(event, first, _MISSING))
    return value.get(rest, _MISSING) if rest and isinstance(value, Mapping) else value


def _text(value: Any, names: TextNames) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            names.meet(value)
            return names.plain(value)
        case {"removed": removed, "member": member}:
            return f"{_text(member, names)}:{_ENDS[removed]}"
        case {"member": member, **rest}:
            return _text(member or rest.get("client_id"), names)
        case dict():
            each = (
                [f"{key}-{number}" for number in part]
                if isinstance(part, list)
                else [f"{key}:{part}"]
                for key, part in value.items()
            )
            return ",".join(names.plain(text) for texts in each for text in texts) or NONE
        case list():
            return ",".join(_text(each, names) for each in value) or NONE
    return str(value)
