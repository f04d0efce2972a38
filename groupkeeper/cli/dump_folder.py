"""Folders as text: a partition's with all its files, a data directory in a line for each log."""

import os
from typing import Final

import click

from groupkeeper.cli.dump_journal import show_journal
from groupkeeper.cli.dump_segment import Summary, show_segment
from groupkeeper.cli.dumping import Dump
from groupkeeper.cli.record_text import RecordText, plain
from groupkeeper.storage.archive import FOLDER as ARCHIVE
from groupkeeper.storage.epochs import FILE_NAME as EPOCH_FILE
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.folders import is_partition, partition_of
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.format import read_format
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.journal import node_of
from groupkeeper.storage.manifest import FILE_NAME as MANIFEST_FILE
from groupkeeper.storage.manifest import FinishedSegment, ManifestFile
from groupkeeper.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, base_of, segment_path
from groupkeeper.storage.start import FILE_NAME as START_FILE
from groupkeeper.storage.whole import read_whole
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

_TEXT_FILES: Final = (EPOCH_FILE, START_FILE)
_KNOWN_FILES: Final = frozenset({MANIFEST_FILE, *_TEXT_FILES})
_LOGS: Final = (*CATALOG, ARCHIVE)


def show(dump: Dump, path: str) -> None:
    """Show whatever a path leads to. Raises OSError, and ClickException if that has no logs."""
    name = path.rpartition("/")[2]
    if not os.path.isdir(path):
        if node_of(name) is not None:
            show_journal(dump, path)
        else:
            folder = os.path.dirname(os.path.abspath(path))
            show_segment(dump, path, text=dump.text_of(folder))
        return
    names = dump.files.list_folder(path)
    if any(base_of(each) is not None for each in names) or MANIFEST_FILE in names:
        show_partition(dump, path)
    elif any(node_of(each) is not None for each in names):
        for each in names:
            _show_unless_gone(dump, f"{path}/{each}")
    elif any(map(is_partition, names)) or {JOURNALS, *_LOGS}.intersection(names):
        show_directory(dump, path, names)
    else:
        raise click.ClickException(
            f"{path}: no segment files (*.log) or journals here or one level below"
        )


def _show_unless_gone(dump: Dump, path: str, *, text: RecordText = plain) -> None:
    """Show a file that a running server may remove meanwhile."""
    try:
        if node_of(path.rpartition("/")[2]) is not None:
            show_journal(dump, path)
        elif base_of(path.rpartition("/")[2]) is not None:
            show_segment(dump, path, text=text)
    except FileNotFoundError:
        dump.line(f"{path} was removed meanwhile")


# -- the folder of a partition ---------------------------------------------------------------------


def show_partition(dump: Dump, folder: str) -> None:
    """Show all files of a folder. Raises OSError."""
    dump.line(f"Folder {folder}")
    names = dump.files.list_folder(folder)
    known = _known_segments(dump, folder, shown=True)
    for name in _TEXT_FILES:
        if name in names:
            _show_text(dump, folder, name)
    others = [name for name in names if not _is_known(name)]
    if others:
        dump.line(f"other files: {' '.join(others)}")
    text = dump.text_of(os.path.abspath(folder))
    for name in names:
        _show_unless_gone(dump, f"{folder}/{name}", text=text)
    _check(dump, folder, known)


def _is_known(name: str) -> bool:
    stem = name
    for suffix in INDEX_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return (
        name in _KNOWN_FILES or base_of(name) is not None or base_of(stem + LOG_SUFFIX) is not None
    )


def _known_segments(dump: Dump, folder: str, *, shown: bool) -> dict[int, FinishedSegment]:
    """The entries of the manifest by base offset, shown as lines if asked for."""
    try:
        found = ManifestFile(dump.files, folder)
    except StorageError as error:
        dump.damage(folder, str(error))
        return {}
    if found.damage:
        dump.damage(folder, found.damage.replace(", and is written anew", ""))
    manifest = found.on_disk
    if shown and (manifest.finished or manifest.begun is not None):
        mark = manifest.mark
        fields = {
            "begun": manifest.begun,
            "givenUp": manifest.given_up,
            "roundsLostAt": manifest.rounds_lost_at,
            "firstDirty": manifest.first_dirty,
        }
        if mark is not None:
            fields |= {"markSegment": mark.base, "markSize": mark.size, "markEndOffset": mark.end}
        dump.line("manifest: " + " ".join(f"{name}: {value}" for name, value in fields.items()))
        for each in manifest.finished:
            compacted = str(each.compacted).lower()
            dump.line(
                f"| segment: {each.base} endOffset: {each.end} size: {each.size} crc: {each.crc} "
                f"compacted: {compacted}"
            )
    return {each.base: each for each in manifest.finished}


def _show_text(dump: Dump, folder: str, name: str) -> None:
    """Show one of Kafka's checkpoints on a line: what follows its version and its count."""
    text = read_whole(dump.files, f"{folder}/{name}").decode("ascii", "replace")
    version, *lines = text.splitlines() or [""]
    if version != "0" or lines[:1] != [str(len(lines) - 1)] or not text.endswith("\n"):
        dump.damage(f"{folder}/{name}", "no checkpoint of version 0, or not all of it")
    dump.line(f"{name}: {', '.join(lines[1:])}")


def _check(dump: Dump, folder: str, known: dict[int, FinishedSegment]) -> None:
    """Report segments that are not as the manifest says, if it still says so: a compaction of a
    running server replaces both.
    """
    wrong = _not_as_known(dump, folder, known)
    if wrong and known == _known_segments(dump, folder, shown=False):
        for path, what in wrong:
            dump.damage(path, what)


def _not_as_known(
    dump: Dump, folder: str, known: dict[int, FinishedSegment]
) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    start = _start_of(dump, folder)
    for base, entry in known.items():
        path = segment_path(folder, base)
        if entry.end <= start:
            continue
        try:
            handle = dump.files.open(path)
        except FileNotFoundError:
            wrong.append((path, f"is missing: offsets {base} to {entry.end - 1}"))
            continue
        size = dump.files.size(handle)
        dump.files.close(handle)
        if size != entry.size:
            wrong.append((path, f"has {size} bytes, and {entry.size} when it was finished"))
    return wrong


def _start_of(dump: Dump, folder: str) -> int:
    try:
        text = read_whole(dump.files, f"{folder}/{START_FILE}").decode("ascii", "replace")
        return int(text.split()[-1])
    except (FileNotFoundError, ValueError, IndexError):
        return 0


# -- a data directory ------------------------------------------------------------------------------


def show_directory(dump: Dump, path: str, names: list[str]) -> None:
    """Show a data directory, or a folder of partition folders: a line for each log, or all."""
    _show_format(dump, path, names)
    folders = [*(name for name in CATALOG if name in names), *_partitions(names)]
    paths = [f"{path}/{name}" for name in folders]
    if ARCHIVE in names:
        archive = f"{path}/{ARCHIVE}"
        paths += [f"{archive}/{name}" for name in _partitions(dump.files.list_folder(archive))]
    journals = dump.files.list_folder(f"{path}/{JOURNALS}")
    paths += [f"{path}/{JOURNALS}/{name}" for name in journals if node_of(name) is not None]
    for each in paths:
        try:
            if dump.everything:
                show(dump, each)
            elif node_of(each.rpartition("/")[2]) is not None:
                _sum_up_journal(dump, each)
            else:
                _sum_up(dump, each)
        except FileNotFoundError:
            dump.line(f"{each} was removed meanwhile")
        except click.ClickException:
            dump.line(f"{each}: no files")


def _partitions(names: list[str]) -> list[str]:
    found = filter(is_partition, names)
    return sorted(found, key=lambda name: (name.rpartition("-")[0], partition_of(name)))


def _show_format(dump: Dump, path: str, names: list[str]) -> None:
    if FORMAT_FILE not in names:
        return
    try:
        found = read_format(dump.files, path)
    except StorageError as error:
        dump.damage(path, str(error))
        return
    assert found is not None, "the file is there"
    dump.line(
        f"{path}: format: {found.version} directory: {found.directory_id} partitions of "
        f"__consumer_offsets: {found.shards}"
    )


def _sum_up(dump: Dump, folder: str) -> None:
    """A line about a log: everything is read and checked."""
    names = dump.files.list_folder(folder)
    bases = [base for base in map(base_of, names) if base is not None]
    known = _known_segments(dump, folder, shown=False)
    whole = Summary()
    size = 0
    for base in bases:
        path = segment_path(folder, base)
        size += os.path.getsize(path)
        whole = _joined(whole, show_segment(dump, path, text=plain, quiet=True))
    _check(dump, folder, known)
    compacted = sum(entry.compacted for entry in known.values())
    offsets = "none" if whole.first < 0 else f"{whole.first} to {whole.following - 1}"
    dump.line(
        f"{folder}: segments: {len(bases)} compacted: {compacted} size: {size} offsets: {offsets} "
        f"batches: {whole.batches} records: {whole.records} "
        f"epochs: {whole.first_epoch} to {whole.last_epoch}"
    )


def _joined(one: Summary, other: Summary) -> Summary:
    if other.first < 0:
        return one
    first = one if one.first >= 0 else other
    return Summary(
        first.first,
        other.following,
        one.batches + other.batches,
        one.records + other.records,
        first.first_epoch,
        other.last_epoch,
    )


def _sum_up_journal(dump: Dump, path: str) -> None:
    found = show_journal(dump, path, quiet=True)
    rounds = "none" if not found.rounds else f"{found.first} to {found.last}"
    dump.line(f"{path}: rounds: {rounds} size: {found.size} logs: {len(found.logs)}")
