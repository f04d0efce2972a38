"""Causes in families, each with a colour, a texture and a letter (`FAMILIES`)."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.protocol.group_event_words import CODES, FAMILIES, LIKELY

NAMES: Final = tuple(f"{letter} {name}" for letter, name in FAMILIES.items())
"""Letter and name of each family. The first one has the look `p0`."""
_LETTERS: Final = "".join(FAMILIES)
_NUMBERS: Final = {
    code: _LETTERS.index(word.family) for code, word in {**CODES, **LIKELY}.items() if word.family
}


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
