"""What `groupkeeper repair` says: a survey, and what was done, as lines for people or as JSON."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from groupkeeper.repair.contents import Contents, GroupContents, MessageContents, State
from groupkeeper.repair.logs import is_event_log
from groupkeeper.repair.recognition import Recognized
from groupkeeper.repair.survey import DamagedCatalog, DamagedLog, Survey
from groupkeeper.repair.writing import Repaired
from groupkeeper.storage.errors import Loss

SHOWN: Final = 10
"""How many of a list are shown without --all."""

_LABEL: Final = 14


def survey_lines(survey: Survey, *, everything: bool) -> Iterator[str]:
    """What was found, and what a repair would do."""
    most = None if everything else SHOWN
    if survey.format_damage:
        yield f"Refused by a start: {survey.format_damage}"
        yield _labelled("repair", "moves it away; the next start writes it anew")
    if survey.catalog is not None:
        yield from _catalog_lines(survey.catalog, most)
    for log in survey.logs:
        yield from _log_lines(survey.target.data_dir, log, most)
    if survey.mended:
        yield "The next start mends this by itself:"
        yield from _some([f"  {line}" for line in survey.mended], most, "  ")
    yield from _sound_lines(survey)


def end_lines(survey: Survey, done: Repaired | None) -> Iterator[str]:
    """What was done, or what to do."""
    path = survey.target.path
    if done is not None:
        yield "Repaired:"
        for line in done.lines:
            yield f"  {line}"
        for name, contents in done.contents.items():
            yield f"  {name} now has {_contents(contents)}"
        if survey.catalog is not None:
            yield "  the catalog has been written anew"
        yield f"The originals are in {done.originals}. Remove it when they are no longer needed."
    elif survey.is_damaged:
        yield f"Nothing was changed. To keep what is readable: groupkeeper repair --write {path}"
    else:
        yield f"{path}: nothing to repair"


def _labelled(label: str, text: str) -> str:
    return f"  {label:{_LABEL}}{text}"


def _some(lines: Sequence[str], most: int | None, indent: str) -> Iterator[str]:
    yield from lines[:most]
    if most is not None and len(lines) > most:
        yield f"{indent}and {len(lines) - most:,} more: --all lists them"


def _list(label: str, text: str, lines: Sequence[str], most: int | None) -> Iterator[str]:
    """A label with a text, and lines below the text."""
    indent = " " * (_LABEL + 2)
    if text:
        yield _labelled(label, text)
        indent += "  "
    else:
        yield _labelled(label, lines[0])
        lines = lines[1:]
    yield from _some([indent + line for line in lines], most, indent)


def counted(number: int, what: str) -> str:
    """`1 group`, `1,204 groups`, `2 batches`."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}{'es' if what.endswith('ch') else 's'}"


def time_text(ms: int) -> str:
    """A time, as UTC."""
    if not 0 <= ms < 253_402_300_800_000:
        return "unknown time"
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


# -- logs ------------------------------------------------------------------------------------------


def _log_lines(data_dir: str, log: DamagedLog, most: int | None) -> Iterator[str]:
    yield f"{data_dir}/{log.name} is refused by a start:"
    yield f"  {log.refused}"
    if log.beyond_repair:
        yield _labelled("beyond repair", log.beyond_repair)
        return
    assert log.contents is not None, "the contents of what can be repaired are known"
    yield _labelled("readable", _contents(log.contents))
    is_of_groups = isinstance(log.contents, GroupContents)
    what = "record" if is_of_groups else "message"
    lost = [_loss(loss) for loss in log.losses if loss.end != loss.first]
    yield from _list("lost", _amount(log.losses, what), lost, most)
    told = {loss.what for loss in log.losses}
    also = [line for line in log.lines if line.removesuffix(": accepted") not in told]
    if also:
        yield from _list("also", "", also, most)
    if is_of_groups:
        yield from _certainty_lines(log, most)
    if log.archive:
        text = f"has segments as they were before compaction: groupkeeper dump {log.archive}"
        yield _labelled("archive", text)


def _contents(found: Contents) -> str:
    if isinstance(found, GroupContents):
        parts = counted(found.groups, "group"), counted(found.members, "member")
        records = counted(found.records, "record")
        return f"{', '.join(parts)}, {counted(found.offsets, 'offset')} (in {records})"
    messages, batches = counted(found.records, "message"), counted(found.batches, "batch")
    if found.first == found.end:
        return f"no messages; the next one gets offset {found.end}"
    return f"{messages} in {batches}, offsets {found.first} to {found.end - 1}"


def _amount(losses: Sequence[Loss], what: str) -> str:
    most = 0
    for loss in losses:
        if loss.end is None:
            return f"an unknown number of {what}s"
        most += loss.end - loss.first
    return f"up to {counted(most, what)}" if most else f"no {what}"


def _loss(loss: Loss) -> str:
    if loss.end is None:
        return f"{loss.what}: from offset {loss.first} on"
    return loss.what


def _certainty_lines(log: DamagedLog, most: int | None) -> Iterator[str]:
    assert isinstance(log.contents, GroupContents)
    if log.recognized:
        lines = [_recognized(each) for each in log.recognized]
        yield from _list("recognizable", "in damaged bytes, for you to judge:", lines, most)
    if log.certain_from == 0:
        yield _labelled("certain", "all of it")
        return
    uncertain = sorted(log.uncertain(), key=lambda state: state.value is None)
    left = {*log.contents.states} - {*uncertain}
    if left:
        yield _labelled("certain", f"{_kinds(left)}: all that is lost was written before")
    if uncertain:
        lines = [_uncertain(state, log.losses) for state in uncertain]
        text = f"{_kinds(uncertain)}: a newer one may be lost"
        yield from _list("not certain", text, lines, most)
    yield _labelled("not known", "groups and offsets whose only records are among the lost ones")


def _kinds(states: Collection[State]) -> str:
    """`2 groups, 1,204 offsets, 3 deletions`, without what there is none of."""
    deleted = sum(state.value is None for state in states)
    groups = sum(state.topic is None and state.value is not None for state in states)
    counts = {"group": groups, "offset": len(states) - groups - deleted, "deletion": deleted}
    return ", ".join(counted(number, what) for what, number in counts.items() if number)


def _name(state: State) -> str:
    if state.topic is None:
        return f"group {state.group}"
    return f"offset of group {state.group}, {state.topic}-{state.partition}"


def _value(state: State) -> str:
    if state.value is None:
        return "deleted"
    if state.topic is not None:
        return f"{state.value}, committed {time_text(state.time_ms)}"
    members = counted(state.members, "member")
    return f"generation {state.value} with {members}, since {time_text(state.time_ms)}"


def _recognized(each: Recognized) -> str:
    why = "its place in the log is unknown" if each.sound else "checksum wrong"
    return f"{_name(each.state)}: {_value(each.state)} ({why})"


def _uncertain(state: State, losses: Sequence[Loss]) -> str:
    later = [loss for loss in losses if loss.end is None or loss.end > max(loss.first, state.at)]
    size = sum(loss.stop - loss.start for loss in later)
    if size and all(loss.path for loss in later):
        where = f"in the {size:,} damaged bytes"
    else:
        where = "in what is lost"
    newest = "that it was deleted" if state.value is None else _value(state)
    return f"{_name(state)}: newest readable is {newest}; a newer one may have been {where}"


# -- the catalog and the rest ----------------------------------------------------------------------


def _catalog_lines(catalog: DamagedCatalog, most: int | None) -> Iterator[str]:
    found = catalog.contents
    yield "The catalog of topics is refused by a start:"
    yield f"  {catalog.refused}"
    topics = [topic for topic in found.topics if not topic.being_deleted]
    yield _labelled("readable", f"{counted(len(topics), 'topic')}, from both copies together")
    yield _labelled("cluster id", found.cluster_id or "lost; a repair makes a new one")
    lost = [loss.what for loss in catalog.losses]
    yield from _list("lost", _amount(catalog.losses, "change"), lost, most)
    if not catalog.losses:
        return
    lines = [f"topic {each.name} with {counted(each.partitions, 'partition')}" for each in topics]
    text = "partition counts, settings and existence of topics: a newer change may be lost"
    yield from _list("not certain", text, lines, most)
    if catalog.from_folders:
        lines = [
            f"topic {each.name} with {counted(each.partitions, 'partition')} or more"
            for each in catalog.from_folders
        ]
        text = "topics that only have folders; a repair makes them anew, with default settings"
        yield from _list("from folders", text, lines, most)


def _sound_lines(survey: Survey) -> Iterator[str]:
    groups = [each for each in survey.sound.values() if isinstance(each, GroupContents)]
    messages = {n: each for n, each in survey.sound.items() if isinstance(each, MessageContents)}
    if groups:
        total = GroupContents(
            sum(each.records for each in groups),
            sum(each.groups for each in groups),
            sum(each.members for each in groups),
            sum(each.offsets for each in groups),
        )
        yield f"Sound: {counted(len(groups), 'log')} of groups, with {_contents(total)}"
    for of_events, whose, what in ((True, "group events", "event"), (False, "topics", "message")):
        logs = [each for name, each in messages.items() if is_event_log(name) is of_events]
        if logs:
            records = counted(sum(each.records for each in logs), what)
            yield f"Sound: {counted(len(logs), 'log')} of {whose}, with {records}"


# -- for machines ----------------------------------------------------------------------------------


def as_json(survey: Survey, done: Repaired | None) -> Mapping[str, Any]:
    """The survey, and what was done, without limits. Any: JSON."""
    catalog = survey.catalog
    return {
        "path": survey.target.path,
        "damaged": survey.is_damaged,
        "format": survey.format_damage or None,
        "catalog": None if catalog is None else _catalog_json(catalog),
        "logs": [_log_json(log) for log in survey.logs],
        "mended_by_the_next_start": survey.mended,
        "sound": {name: _contents_json(each) for name, each in survey.sound.items()},
        "repaired": None
        if done is None
        else {
            "originals": done.originals,
            "lines": done.lines,
            "logs": {name: _contents_json(each) for name, each in done.contents.items()},
        },
    }


def _log_json(log: DamagedLog) -> Mapping[str, Any]:
    return {
        "name": log.name,
        "refused": log.refused,
        "beyond_repair": log.beyond_repair or None,
        "archive": log.archive or None,
        "lost": [loss._asdict() for loss in log.losses],
        "contents": None if log.contents is None else _contents_json(log.contents),
        "certain_from": log.certain_from,
        "recognized": [{**each.state._asdict(), "sound": each.sound} for each in log.recognized],
    }


def _contents_json(found: Contents) -> Mapping[str, Any]:
    if isinstance(found, MessageContents):
        return {key: getattr(found, key) for key in ("first", "end", "batches", "records")}
    counts = {key: getattr(found, key) for key in ("records", "groups", "members", "offsets")}
    if not found.states:
        return counts
    return {**counts, "states": [state._asdict() for state in found.states]}


def _catalog_json(catalog: DamagedCatalog) -> Mapping[str, Any]:
    topics = [*catalog.contents.topics, *catalog.from_folders]
    return {
        "refused": catalog.refused,
        "cluster_id": catalog.contents.cluster_id or None,
        "topics": [
            {"name": each.name, "partitions": each.partitions, "from_folders": each.from_folders}
            for each in topics
            if not each.being_deleted
        ],
        "lost": [loss._asdict() for loss in catalog.losses],
    }
