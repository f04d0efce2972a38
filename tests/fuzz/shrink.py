"""A finding with as few operations as can be found in limited time: drop some while it still fails.

Every operation draws its chance from its own number, so the others stay what they were.
"""

import time
from collections.abc import Callable, Collection

from tests.fuzz.epoch import Epoch, Size


def outcome(seed: int, size: Size, kept: Collection[int] | None = None) -> tuple[str, str, int]:
    """Name of the finding, all of its text, and the operation it was met in; "" when all held."""
    epoch = Epoch(seed, size, kept)
    try:
        epoch.run()
    except Exception as found:  # noqa: BLE001  # whatever the server made happen is a finding
        text = str(found) or repr(found)
        return name_of(found), text, epoch.operation
    return "", "", epoch.operation


def name_of(found: Exception) -> str:
    """The same for the same defect, whatever the numbers in it."""
    first = (str(found).splitlines() or [""])[0]
    letters = "".join(letter for letter in first if not letter.isdigit())
    return f"{type(found).__name__}: {letters[:60]}"


def shrink(fails: Callable[[list[int]], bool], numbers: list[int], seconds: float) -> list[int]:
    """A part of the numbers with which it still fails; the whole when time is short."""
    until = time.monotonic() + seconds
    piece = max(1, len(numbers) // 2)
    while time.monotonic() < until:
        at = 0
        while at < len(numbers) and time.monotonic() < until:
            fewer = numbers[:at] + numbers[at + piece :]
            if fails(fewer):
                numbers = fewer
            else:
                at += piece
        if piece == 1:
            break
        piece //= 2
    return numbers
