"""Arguments and external dependencies of an observer."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from groupkeeper.clock import Clock
from groupkeeper.settings.options import Address
from groupkeeper.settings.table import Settings
from groupkeeper.storage.files.files import Files
from groupkeeper.topics.topics import TopicsWorld


@dataclass(slots=True)
class ObserveOptions:
    """The arguments of an observer."""

    bootstrap: str
    data_dir: Path
    http: Address = ("127.0.0.1", 9644)
    settings: Settings = field(default_factory=Settings)
    """Of the HTTP port; see `observer_settings`."""
    unused_keys: tuple[str, ...] = ()
    """Settings of variables that an observer does not take; they are named in a log line."""
    ask: bool = True
    """Whether coordinators are asked what the log does not say."""


@dataclass(slots=True)
class ObserverWorld:
    """External dependencies; tests have their own."""

    files: Files = field(default_factory=Files)
    clock: Callable[[asyncio.AbstractEventLoop], Clock] = Clock
    executor: Callable[[], Executor] = lambda: ThreadPoolExecutor(1, thread_name_prefix="watch")
    topics: TopicsWorld | None = None
