"""Decides which of the batches found in a split count: offsets must rise, and each is read once.

Both parsers ask it, after they looked at all headers of the split.
"""

import numpy as np
import numpy.typing as npt

from groupkeeper.analytics.reading.order import disagreeing
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem

Numbers = npt.NDArray[np.int64]
NO_EPOCH = -(2**31) - 1
"""In the place of a leader epoch that is not to be believed: no int32."""


def settle(
    problems: Numbers, bases: Numbers, spans: Numbers, epochs: Numbers, split: Split
) -> None:
    """Set the Problem of batches (0: none so far) with a base offset that cannot be right, or that
    are read from another segment, and the epoch of those whose leader epoch cannot be right.

    `spans` are numbers of offsets.
    """
    _check_offsets(problems, bases, spans, split)
    sound = np.flatnonzero(problems == 0)
    if np.any(np.diff(epochs[sound]) < 0) or np.any(epochs[sound] < -1):
        wrong = disagreeing(epochs[sound].tolist(), -1, 2**31)
        epochs[sound[wrong]] = NO_EPOCH
    first, until = split.only
    problems[(problems == 0) & ((bases < first) | (bases >= until))] = Problem.OTHER_TASK
    for first, until in split.elsewhere:
        problems[(problems == 0) & (bases >= first) & (bases < until)] = Problem.DUPLICATE


def _check_offsets(problems: Numbers, bases: Numbers, spans: Numbers, split: Split) -> None:
    sound = np.flatnonzero(problems == 0)
    if not len(sound):
        return
    of_sound = spans[sound]
    # Offsets unused before each batch: see order.rooms.
    rooms = bases[sound] - (np.cumsum(of_sound) - of_sound)
    highest = split.until - int(of_sound.sum())
    if rooms[0] < split.first or rooms[-1] > highest or np.any(np.diff(rooms) < 0):
        problems[sound[disagreeing(rooms.tolist(), split.first, highest)]] = Problem.BAD_OFFSET
