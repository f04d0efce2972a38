"""What commands that work for long do at a signal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM is as SIGINT: what was written is removed."""

    def stop(_: int, frame: FrameType | None) -> None:
        # `timeout` sends it twice; the second one would end the removing.
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
