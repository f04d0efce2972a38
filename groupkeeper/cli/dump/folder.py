"""Folders as text: a partition's with all its files, a data directory with a line for each log."""

import os
from contextlib import suppress
from typing import Final

import click

from groupkeeper.cli.dump.journal import show_journal, sum_up_journal
from groupkeeper.cli.dump.record_text import RecordText, plain
from groupkeeper.cli.dump.segment import Dump, Summary, named, show_segment
from groupkeeper.storage.compaction.archive import FOLDER as ARCHIVE
from groupkeeper.storage.errors import Corrupt, StorageError
from groupkeeper.storage.files.whole import read_whole
from groupkeeper.storage.folders import is_partition, partitions_among
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.format import VERSION, read_format
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.journal.journal import node_of
from groupkeeper.storage.log.epochs import FILE_NAME as EPOCH_FILE
from groupkeeper.storage.log.segment import INDEX_SUFFIXES, LOG_SUFFIX, base_of, segment_path
from groupkeeper.storage.log.start import FILE_NAME as START_FILE
from groupkeeper.storage.log.start import peek_start
from groupkeeper.storage.recovery.manifest import FILE_NAME as MANIFEST_FILE
from groupkeeper.storage.recovery.manifest import FinishedSegment, ManifestFile
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

_TEXT_FILES: Final = (EPOCH_FILE, START_FILE)
_KNOWN_FILES: Final = frozenset({MANIFEST_FILE, *_TEXT_FILES})
_LOGS: Final = (*CATALOG, ARCHIVE)


def show(dump: Dump, path: str) -> None:
    """Show whatever is at a path. Raises OSError, and ClickException if there are no logs."""
    if not os.path.isdir(path):
        _show_file(dump, path, dump.text_of(os.path.dirname(os.path.abspath(path))))
        return
    names = dump.files.list_folder(path)
    if any(base_of(each) is not None for each in names) or MANIFEST_FILE in names:
        show_partition(dump, path)
    elif any(node_of(each) is not None for each in names):
        _show_files(dump, path, names, plain)
    elif any(map(is_partition, names)) or {JOURNALS, *_LOGS}.intersection(names):
        show_directory(dump, path, names)
    else:
        raise click.ClickException(
            f"{path}: no segment files (*.log) or journals here or one level below"
        )


def _show_file(dump: Dump, path: str, text: RecordText) -> None:
    if node_of(path.rpartition("/")[2]) is not None:
        show_journal(dump, path)
    else:
        show_segment(dump, path, text=text)


def _show_files(dump: Dump, folder: str, names: list[str], text: RecordText) -> None:
    """Show the journals and segments of a folder."""
    for name in names:
        if node_of(name) is not None or base_of(name) is not None:
            path = f"{folder}/{name}"
            with dump.unless_gone(path):
                _show_file(dump, path, text)


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
    _show_files(dump, folder, names, dump.text_of(os.path.abspath(folder)))
    _check(dump, folder, known)


def _is_known(name: str) -> bool:
    """Return whether a file belongs to a log. Index files are named after their segment."""
    stem, _, suffix = name.partition(".")
    is_index = f".{suffix}" in INDEX_SUFFIXES
    return name in _KNOWN_FILES or base_of(stem + LOG_SUFFIX if is_index else name) is not None


def _known_segments(dump: Dump, folder: str, *, shown: bool) -> dict[int, FinishedSegment]:
    """Return the entries of the manifest by base offset, and print them if `shown`."""
    try:
        found = ManifestFile(dump.files, folder)
    except StorageError as error:
        dump.damage(folder, str(error))
        return {}
    if found.damage:
        dump.damage(folder, found.damage.replace(", and will be rewritten", ""))
    manifest = found.on_disk
    if shown and (manifest.finished or manifest.begun is not None):
        mark = manifest.mark
        fields = {
            "begun": manifest.begun,
            "givenUp": manifest.given_up,
            "flushesLostAt": manifest.flushes_lost_at,
            "firstDirty": manifest.first_dirty,
        }
        if mark is not None:
            fields |= {"markSegment": mark.base, "markSize": mark.size, "markEndOffset": mark.end}
        dump.line(f"manifest: {named(fields)}")
        for each in manifest.finished:
            compacted = str(each.compacted).lower()
            dump.line(
                f"| segment: {each.base} endOffset: {each.end} size: {each.size} crc: {each.crc} "
                f"compacted: {compacted}"
            )
    return {each.base: each for each in manifest.finished}


def _show_text(dump: Dump, folder: str, name: str) -> None:
    """Show one of Kafka's checkpoints on one line, without its version and count."""
    text = read_whole(dump.files, f"{folder}/{name}").decode("ascii", "replace")
    version, *lines = text.splitlines() or [""]
    if version != "0" or lines[:1] != [str(len(lines) - 1)] or not text.endswith("\n"):
        dump.damage(f"{folder}/{name}", "not a complete checkpoint of version 0")
    dump.line(f"{name}: {', '.join(lines[1:])}")


def _check(dump: Dump, folder: str, known: dict[int, FinishedSegment]) -> None:
    """Report segments that do not match the manifest, if it still has the same entries. A
    compaction by a running server replaces both.
    """
    wrong = _not_as_known(dump, folder, known)
    if wrong and known == _known_segments(dump, folder, shown=False):
        for path, what in wrong:
            dump.damage(path, what)


def _not_as_known(
    dump: Dump, folder: str, known: dict[int, FinishedSegment]
) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    start = 0
    with suppress(FileNotFoundError, Corrupt):
        start = peek_start(dump.files, folder)
    for base, entry in known.items():
        path = segment_path(folder, base)
        found = dump.files.look(path)
        if entry.end <= start:
            continue
        if found is None:
            wrong.append((path, f"missing: offsets {base} to {entry.end - 1}"))
        elif found.size != entry.size:
            wrong.append((path, f"has {found.size} bytes, and {entry.size} when it was finished"))
    return wrong


# -- a data directory ------------------------------------------------------------------------------


def show_directory(dump: Dump, path: str, names: list[str]) -> None:
    """Show a data directory, or a folder of partition folders: a line per log and journal."""
    _show_format(dump, path, names)
    folders = [*(name for name in CATALOG if name in names), *partitions_among(names)]
    paths = [f"{path}/{name}" for name in folders]
    if ARCHIVE in names:
        archive = f"{path}/{ARCHIVE}"
        paths += [f"{archive}/{name}" for name in partitions_among(dump.files.list_folder(archive))]
    journals = dump.files.list_folder(f"{path}/{JOURNALS}")
    paths += [f"{path}/{JOURNALS}/{name}" for name in journals if node_of(name) is not None]
    for each in paths:
        with dump.unless_gone(each):
            is_journal = node_of(each.rpartition("/")[2]) is not None
            (sum_up_journal if is_journal else _sum_up)(dump, each)


def _show_format(dump: Dump, path: str, names: list[str]) -> None:
    if FORMAT_FILE not in names:
        return
    try:
        found = read_format(dump.files, path)
    except StorageError as error:
        dump.damage(path, str(error))
        return
    assert found is not None, "the file exists"
    dump.line(
        f"{path}: format: {VERSION} directory: {found.directory_id} partitions of "
        f"__consumer_offsets: {found.shards}"
    )


def _sum_up(dump: Dump, folder: str) -> None:
    """Print a line about a log, after reading and verifying all of it."""
    names = dump.files.list_folder(folder)
    bases = [base for base in map(base_of, names) if base is not None]
    known = _known_segments(dump, folder, shown=False)
    paths = [segment_path(folder, base) for base in bases]
    size = sum(os.path.getsize(path) for path in paths)
    found = [show_segment(dump, path, text=plain, quiet=True) for path in paths]
    _check(dump, folder, known)
    found = [each for each in found if each.batches] or [Summary()]
    first, last = found[0], found[-1]
    fields = {
        "segments": len(bases),
        "compacted": sum(entry.compacted for entry in known.values()),
        "size": size,
        "offsets": "none" if first.first < 0 else f"{first.first} to {last.following - 1}",
        "batches": sum(each.batches for each in found),
        "records": sum(each.records for each in found),
        "epochs": f"{first.first_epoch} to {last.last_epoch}",
    }
    dump.line(f"{folder}: {named(fields)}")
