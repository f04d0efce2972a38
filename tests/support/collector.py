"""Python's garbage collector as it was before product code set it up for a process of its own.

`serve`, `observe` and `analyze` collect seldom, and exclude what they have made from collections. A
command that a test runs in its own process would do so for all tests after it: what they leave
would never be freed.
"""

import gc
from typing import Final

THRESHOLD: Final = gc.get_threshold()


def restore_collector() -> None:
    """Undo what product code has changed."""
    gc.set_threshold(*THRESHOLD)
    gc.callbacks[:] = [each for each in gc.callbacks if not _is_ours(each)]
    gc.enable()
    if gc.get_freeze_count():
        gc.unfreeze()


def _is_ours(callback: object) -> bool:
    return type(callback).__module__.startswith("groupkeeper.")
