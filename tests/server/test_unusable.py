"""Addresses and data directories that cannot be had, as one line that says what to do."""

import errno
import os

import pytest

from groupkeeper.server.unusable import CannotListenError, listening_at, opening_directory
from groupkeeper.storage.errors import StorageError


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            OSError(errno.EADDRINUSE, "asyncio's text: address already in use"),
            (
                "cannot listen at [::1]:9644: address already in use: stop what listens there, or "
                "choose another --http"
            ),
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "asyncio's text"),
            "cannot listen at [::1]:9644: cannot assign requested address: choose another --http",
        ),
        (
            OSError(-2, "Name or service not known"),
            "cannot listen at [::1]:9644: Name or service not known: choose another --http",
        ),
    ],
)
def test_an_address_is_named_with_its_option(problem: OSError, line: str) -> None:
    with pytest.raises(CannotListenError) as refused, listening_at(("::1", 9644), "--http"):
        raise problem
    assert str(refused.value) == line


def test_a_directory_is_named_with_its_option() -> None:
    problem = OSError(errno.EROFS, os.strerror(errno.EROFS), "data/lock")
    with pytest.raises(StorageError) as refused, opening_directory("data", "--data"):
        raise problem
    assert str(refused.value) == (
        "data cannot be used as a data directory (data/lock: Read-only file system): make it "
        "writable, or choose another --data"
    )


def test_an_error_of_the_disk_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="No space left") as same, opening_directory("data", "--data"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert same.type is OSError
