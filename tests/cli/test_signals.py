"""What commands that work for long do at a signal."""

import signal
from collections.abc import Iterator

import pytest

from groupkeeper.cli.progress import ended_in_order


def terminated() -> Iterator[None]:
    """Twice; yields when what was written would have been removed."""
    with ended_in_order():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            yield


def test_sigterm_is_an_interrupt_and_a_second_one_does_not_end_the_removing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    run = terminated()
    next(run)
    with pytest.raises(KeyboardInterrupt):
        next(run)
    assert signal.getsignal(signal.SIGTERM) is before
