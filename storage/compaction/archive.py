"""The archive of an offsets log: its segments as they were before compaction, for analysis.

A folder per log, in the same layout as the log's own. A segment is hard-linked into it before
compacted segments replace it, so it takes no space until then, and its bytes are never copied.
"""

from collections.abc import Iterable
from typing import Final

from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.log.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    Segment,
    base_of,
    last_timestamp,
    segment_stem,
)

FOLDER: Final = "archive"
"""A folder in the data directory. Not of the form `<topic>-<partition>`."""


def archive_folder(data_dir: str, name: str) -> str:
    return f"{data_dir}/{FOLDER}/{name}"


def link_raw(files: Files, archive: str, segments: Iterable[Segment]) -> None:
    """Durably link segments into an archive folder. Raises OSError."""
    linked = False
    for segment in segments:
        source = segment.path.removesuffix(LOG_SUFFIX)
        target = segment_stem(archive, segment.base_offset)
        files.make_folder(archive)
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            files.remove(target + suffix)  # left by a swap that was not completed
            files.link(source + suffix, target + suffix)
        linked = True
    if linked:
        for folder in (archive, parent_of(archive), parent_of(parent_of(archive))):
            files.sync_folder(folder)


def remove_older(files: Files, archive: str, timestamp_ms: int) -> int:
    """Remove segments whose largest timestamp is before `timestamp_ms`; return their number.

    A segment without a readable time index stays until a later one is removed. Raises OSError.
    """
    bases = sorted(base for base in map(base_of, files.list_folder(archive)) if base is not None)
    ages = [last_timestamp(files, archive, base) for base in bases]
    old = [at for at, age in enumerate(ages) if 0 <= age < timestamp_ms]
    gone = bases[: old[-1] + 1] if old else []
    for base in gone:
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            files.remove(segment_stem(archive, base) + suffix)
    return len(gone)
