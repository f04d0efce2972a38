"""Causes in families, each with a colour, a texture and a letter: seventeen codes are too many to
tell apart by eye. Codes and guesses are those of docs/events.md.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

FAMILIES: Final = {
    "E no heartbeat in time": ("session_expired", "pending_member_expired"),
    "S application too slow": ("join_timeout", "sync_timeout", "max_poll_exceeded", "slow_member"),
    "R restarted": (
        *("static_member_returned_changed", "static_member_returned_unready"),
        *("rolling_restart", "duel"),
    ),
    "L member left": ("member_left",),
    "J member joined": ("member_joined", "static_member_joined"),
    "T topics changed, or rejoined": ("subscription_changed", "leader_rejoined", "member_rejoined"),
    "F forced from outside": (
        *("member_removed_by_admin", "operator", "policy", "group_shrunk", "assignment_lost"),
    ),
    "? unknown": (),
}
"""Letter and name -> codes, and what is likely behind one. The first one has the look `p0`."""
NAMES: Final = (*FAMILIES,)
_NUMBERS: Final = {code: at for at, codes in enumerate(FAMILIES.values()) for code in codes}


def families_of(cause: pa.ChunkedArray, likely: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The number of each row's family. What is likely behind a code counts more than the code."""
    found = np.full(len(cause), len(NAMES) - 1)
    for column in (cause, likely):
        places = pc.index_in(column.cast(pa.string()), pa.array([*_NUMBERS])).fill_null(-1)
        at = places.to_numpy()
        found = np.where(at < 0, found, np.array([*_NUMBERS.values()])[at])
    return found


def legend(numbers: Iterable[int]) -> list[tuple[str, str]]:
    """What the looks of these families mean."""
    return [(f"p{at}", NAMES[at]) for at in sorted({*numbers})]
