"""Handles files left by an Apache Kafka broker that was killed, or copied while running.

The broker's cleaner writes new segments as `.cleaned`, renames them to `.swap` when they are
complete, renames the old ones to `.deleted`, and finally gives the new ones their final names. So
the records of old segments may be in `.swap` files only. Folders that a Groupkeeper server has
written to have a manifest, and other rules (swap.py).

Source: Kafka's LogLoader.load and LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from typing import Final

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.scan import valid_batches
from groupkeeper.storage.log.segment import DIGITS, LOG_SUFFIX
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.findings import Findings

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


def settle_brokers_files(files: Files, folder: str, findings: Findings) -> None:
    """Complete or undo the work of a broker's cleaner, as the broker's next start would.

    For a folder without a manifest. Raises OSError, and Corrupt for a damaged new segment whose old
    segment is gone. If the old segment is still there the new one is dropped, and `findings` has
    it.
    """
    names = files.list_folder(folder)
    if not any(name.endswith((CLEANED, SWAP, DELETED)) for name in names):
        return
    unfinished = [_base(name) for name in names if name.endswith(CLEANED)]
    swaps = [name for name in names if name.endswith(SWAP)]
    if unfinished:  # later ones belong to the unfinished work
        swaps = [name for name in swaps if _base(name) < min(unfinished)]
    ends: dict[int, int] = {}
    for name in [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP)]:
        end = _end(files, f"{folder}/{name}", _base(name))
        if end is None and name.removesuffix(SWAP) in names:
            swaps = [other for other in swaps if _base(other) != _base(name)]
            findings.repairs.append(
                f"{folder}/{name} is damaged: removed; its source segments are kept"
            )
            continue
        if end is None:
            # The extent of the loss is determined later.
            findings.lost(f"{folder}/{name} is damaged", _base(name), _base(name))
        ends[_base(name)] = end or 0
    for base, end in ends.items():
        following = min((other for other in ends if other > base), default=0)
        _remove(files, folder, names, base, max(end, following))
    for name in swaps:
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP)}")
    files.sync_folder(folder)
    for name in files.list_folder(folder):
        if name.endswith((CLEANED, SWAP, DELETED)):
            files.remove(f"{folder}/{name}")


def _base(name: str) -> int:
    """Return the offset at the start of a file name; -1 if there is none."""
    digits = name[:DIGITS]
    return int(digits) if len(digits) == DIGITS and digits.isdigit() else -1


def _end(files: Files, path: str, base: int) -> int | None:
    """Return the offset after the last batch of a new segment; None if it is damaged."""
    with opened(files, path) as handle:
        size, position, end = files.size(handle), 0, base
        for batch in valid_batches(Window(files, handle, size), 0, base):
            position, end = batch.position + batch.size, batch.last_offset + 1
    return end if position == size else None


def _remove(files: Files, folder: str, names: list[str], base: int, end: int) -> None:
    """Remove the files of the old segments whose base offsets are in a range."""
    for name in names:
        if base <= _base(name) < end and not name.endswith((CLEANED, SWAP, DELETED)):
            files.remove(f"{folder}/{name}")
