"""Typed wrappers of numba's decorators, and the folder that caches compiled kernels.

Compiling takes seconds in every worker process, so kernels have fixed signatures and are cached on
disk: beside this package, or, if that is not writable (a system-wide installation, a read-only
image), in a private folder under the temporary folder. NUMBA_CACHE_DIR takes precedence.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

ByteArray = npt.NDArray[np.uint8]
Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
_Function = TypeVar("_Function", bound=Callable[..., object])


def cache_folder(package: Path) -> Path | None:
    """The folder for compiled kernels; None if numba's default, beside the source, is writable."""
    beside = package / "__pycache__"
    if os.access(beside if beside.is_dir() else package, os.W_OK):
        return None
    if not hasattr(os, "getuid"):  # Windows: the temporary folder is the user's own
        return Path(tempfile.gettempdir()) / "groupkeeper-numba"
    folder = Path(tempfile.gettempdir()) / f"groupkeeper-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Compiled code is loaded from here: never from a folder that another user owns or can write.
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="groupkeeper-numba-"))
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    _folder = cache_folder(Path(__file__).parent)
    if _folder is not None:
        numba.config.CACHE_DIR = str(_folder)


# Types of kernel signatures. BYTES is read-only, whether or not the array is.
INT: Final = numba.int64
NOTHING: Final = numba.void
INTS: Final = numba.int64[::1]
INTS32: Final = numba.int32[::1]
TABLE: Final = numba.int64[:, ::1]
BYTES: Final = numba.types.Array(numba.uint8, 1, "C", readonly=True)
BUFFER: Final = numba.uint8[::1]


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Loads cached kernels without numba's initialization for compiling, which imports and
    registers everything it can compile: that takes a fifth of a second.
    """

    def load_overload(self, sig: object, target_context: object) -> object:
        rtsys.initialize(target_context)
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
        if found is None and _told:
            _told.pop()()
        return found


_told: list[Callable[[], object]] = []
"""Callbacks to run before the first kernel is compiled."""


@contextmanager
def told_of_compiling(tell: Callable[[], object]) -> Iterator[None]:
    """Call `tell` before the first kernel is compiled in this context, which takes up to 20 s."""
    _told.append(tell)
    try:
        yield
    finally:
        _told.clear()


def kernel(signature: object) -> Callable[[_Function], _Function]:
    """Compile a function for one signature immediately, or load the kernel from the cache."""

    def made(function: _Function) -> _Function:
        if numba.config.DISABLE_JIT:
            return function
        dispatcher = numba.njit(function, nogil=True)
        dispatcher._cache = _Cache(function)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return]  # numba has no types

    return made


def inline(function: _Function) -> _Function:
    """Inline a helper into the kernels that call it, so that loading a cached kernel compiles
    nothing. Without "always", tuples and array views are passed in memory.
    """
    return numba.njit(function, nogil=True, inline="always")  # type: ignore[no-any-return]  # numba has no types
