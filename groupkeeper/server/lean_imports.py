"""Imports packages of others without those parts of them that a server does not use.

asyncio imports ssl, for connections that are encrypted: 4 MiB, with OpenSSL. crc32c imports
importlib.metadata, for its own version: 1.5 MiB. Neither is needed here. Whoever needs one of them
later imports it as usual.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


def import_lean() -> None:
    """To be called before anything that imports asyncio or crc32c. Does nothing about a module that
    has been imported.
    """
    with _in_place_of("ssl", None):  # as in a Python without OpenSSL
        import_module("asyncio")
    with _in_place_of("importlib.metadata", _no_metadata()):
        import_module("crc32c")


def _no_metadata() -> ModuleType:
    stub = ModuleType("importlib.metadata")
    stub.version = lambda _: "unknown"  # type: ignore[attr-defined]
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
