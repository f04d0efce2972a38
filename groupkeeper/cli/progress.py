"""Progress display and signal handling of long-running commands."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ByteProgress = Callable[[str, int], None]
"""Called with the name of a file or task, and the number of bytes just read or copied."""


@contextmanager
def progress(doing: str = "reading", *, on_terminal: bool | None = None) -> Iterator[ByteProgress]:
    """Show progress in a line on standard error while the work runs, if that is a terminal."""
    if not (sys.stderr.isatty() if on_terminal is None else on_terminal):
        yield lambda what, size: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn()
    console = Console(stderr=True, force_terminal=on_terminal)
    with Bar(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(doing, total=None)

        def show(what: str, size: int) -> None:
            bar.update(task, description=f"{doing} {what}", advance=size)

        yield show


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Treat SIGTERM like SIGINT, so that unfinished output is removed."""

    def stop(_: int, frame: FrameType | None) -> None:
        # `timeout` sends it twice; the second one would interrupt the removal.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):  # an event loop has its own
            interrupt(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
