"""The output of `groupkeeper repair`: survey and repairs, as lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from groupkeeper.repair.logs import LogContents, is_of_groups
from groupkeeper.repair.survey import DamagedCatalog, DamagedLog, Survey
from groupkeeper.storage.errors import Loss
from groupkeeper.why.texts import count

SHOWN: Final = 10
"""Maximum lines of a list on a terminal; the report, files and pipes have all."""


def survey_lines(survey: Survey, most: int | None = None) -> Iterator[str]:
    """Yield the findings, and what a repair would do. `most`: maximum lines of a list."""
    if survey.format_damage:
        yield f"A server does not start: {survey.format_damage}"
        yield "  repair    moves the file away; the next start writes a new one"
    if survey.catalog is not None:
        yield from _catalog_lines(survey.catalog, most)
    for log in survey.logs:
        yield from _log_lines(survey.target.data_dir, log, most)
    if survey.mended:
        yield "The next start repairs this by itself:"
        yield from _list(survey.mended, most, "  ")
    yield from _sound_lines(survey.sound)


def end_lines(survey: Survey, originals: str) -> Iterator[str]:
    """Yield what was done, or what to do. `originals`: their folder, or "" before a repair."""
    path = survey.target.path
    if originals:
        yield f"Repaired. The originals are in {originals}: remove it when no longer needed."
    elif survey.is_damaged:
        yield f"Nothing was changed. To keep what is readable: groupkeeper repair --write {path}"
    else:
        yield f"{path}: nothing to repair"


def _list(lines: Sequence[str], most: int | None, indent: str = " " * 12) -> Iterator[str]:
    yield from (indent + line for line in lines[:most])
    if most is not None and len(lines) > most:
        yield f"{indent}and {len(lines) - most:,} more: `| less` shows them"


def _log_lines(data_dir: str, log: DamagedLog, most: int | None) -> Iterator[str]:
    yield f"A server does not open {data_dir}/{log.name}:"
    yield f"  {log.refused}"
    if log.beyond_repair:
        yield f"  beyond repair: {log.beyond_repair}"
        return
    assert log.contents is not None, "repairable logs have known contents"
    yield f"  readable  {_contents(log.name, log.contents)}"
    yield f"  lost      {_amount(log.losses, 'record')}"
    yield from _list([line.removesuffix(": accepted") for line in log.lines], most)
    if log.archive:
        text = f"has segments as they were before compaction: groupkeeper dump {log.archive}"
        yield f"  archive   {text}"


def _contents(name: str, found: LogContents) -> str:
    if is_of_groups(name):
        return _groups(found)
    if found.first == found.end:
        return f"no records; the next one gets offset {found.end}"
    return f"{count(found.records, 'record')}, offsets {found.first} to {found.end - 1}"


def _groups(found: LogContents) -> str:
    parts = count(found.groups, "group"), count(found.members, "member")
    records = count(found.records, "record")
    return f"{', '.join(parts)}, {count(found.offsets, 'offset')} (in {records})"


def _amount(losses: Sequence[Loss], what: str) -> str:
    if any(loss.end is None for loss in losses):
        return f"an unknown number of {what}s"
    most = sum((loss.end or 0) - loss.first for loss in losses)
    return f"up to {count(most, what)}" if most else f"no {what}"


def _catalog_lines(catalog: DamagedCatalog, most: int | None) -> Iterator[str]:
    left = catalog.left
    yield "A server does not open the catalog of topics:"
    yield f"  {catalog.refused}"
    yield f"  readable  {count(len(left.topics()), 'topic')}, from both copies together"
    yield f"  cluster   {left.cluster_id or 'the id is lost; a repair creates a new one'}"
    yield f"  lost      {_amount(left.losses, 'change')}"
    yield from _list([loss.what for loss in left.losses], most)
    if catalog.from_folders:
        yield "  folders   topics that only have folders; a repair recreates them, with defaults:"
        lines = [
            f"topic {name} with {count(partitions, 'partition')} or more"
            for name, partitions in catalog.from_folders.items()
        ]
        yield from _list(lines, most)


def _sound_lines(sound: Mapping[str, LogContents]) -> Iterator[str]:
    groups = [each for name, each in sound.items() if is_of_groups(name)]
    others = [each for name, each in sound.items() if not is_of_groups(name)]
    if groups:
        summed = ("records", "groups", "members", "offsets")
        sums = {key: sum(getattr(each, key) for each in groups) for key in summed}
        total = _groups(LogContents(0, 0, **sums))
        yield f"Sound: {count(len(groups), 'log')} of groups, with {total}"
    if others:
        records = count(sum(each.records for each in others), "record")
        yield f"Sound: {count(len(others), 'other log')}, with {records}"
