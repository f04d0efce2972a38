"""Bugs on demand: a handler of the coordinator that raises, or does half of its work."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.coordinator.apis import GROUP_APIS


def boom(*_: object) -> None:
    raise RuntimeError("a bug")


def break_handler(
    monkeypatch: pytest.MonkeyPatch, request: type[Any], handle: Callable[..., None] = boom
) -> None:
    """Handle requests of this class with `handle` until the patch is undone."""
    monkeypatch.setitem(GROUP_APIS, request, replace(GROUP_APIS[request], handle=handle))
