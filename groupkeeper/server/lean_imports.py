"""Imports third-party packages without parts of them that a server does not use.

asyncio imports ssl, for encrypted connections: 4 MiB, with OpenSSL. crc32c imports
importlib.metadata, for its own version, and argparse, for a command: 1.7 MiB. None of them is
needed here. Code that needs one later can import it as usual.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


def import_lean() -> None:
    """Import asyncio and crc32c; call this before anything else imports them."""
    with _in_place_of("ssl", None):  # as in a Python without OpenSSL
        import_module("asyncio")
    metadata = _stub("importlib.metadata", version=lambda _: "unknown")
    command = _stub("crc32c._cli", main=None)
    with _in_place_of(metadata.__name__, metadata), _in_place_of(command.__name__, command):
        import_module("crc32c")


@contextmanager
def no_collections(*, free: bool = False) -> Iterator[None]:
    """Import modules without garbage collections, about 90, which would traverse permanent objects.
    They would free 0.8 MiB, and take a tenth of the time of a start.

    `free`: collect once at the end, which takes some 10 ms. What is imported later, such as `ssl`,
    takes the memory that it frees.
    """
    gc.disable()
    try:
        yield
        if free:
            gc.collect()
    finally:
        gc.freeze()  # else the first collection traverses all of it
        gc.enable()


def _stub(name: str, **has: object) -> ModuleType:
    stub = ModuleType(name)
    vars(stub).update(has)
    return stub


@contextmanager
def _in_place_of(name: str, stub: ModuleType | None) -> Iterator[None]:
    """Let imports of a module that has not been imported find another one, or fail with None."""
    modules = sys.modules
    if name in modules:
        yield
        return
    # Any module may be None there: its import raises ImportError.
    modules[name] = stub  # type: ignore[assignment]
    try:
        yield
    finally:
        del modules[name]
