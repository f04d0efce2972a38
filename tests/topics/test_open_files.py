"""Files of which only some are open: handles last, descriptors come and go."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from groupkeeper.storage.errors import NotCached
from groupkeeper.storage.files.files import Files
from groupkeeper.topics.open_files import CACHED_MOST, OpenFiles
from tests.support.fake_files import FakeDisk, FakeFiles


class LimitedFiles(FakeFiles):
    """Knows how many files were open at most, and has only so many."""

    def __init__(self, disk: FakeDisk, limit: int = 1000) -> None:
        super().__init__(disk)
        self.limit = limit
        self.now = self.most = self.opened = 0

    def open(self, path: str, *, create: bool = False) -> int:
        if self.now >= self.limit:
            raise OSError(errno.EMFILE, "Too many open files")
        handle = super().open(path, create=create)
        self.opened += 1
        self.now += 1
        self.most = max(self.most, self.now)
        return handle

    def close(self, handle: int) -> None:
        super().close(handle)
        self.now -= 1


@pytest.fixture
def real() -> LimitedFiles:
    return LimitedFiles(FakeDisk())


def written(files: OpenFiles, count: int) -> list[int]:
    handles = [files.open(f"f{n}", create=True) for n in range(count)]
    for n, handle in enumerate(handles):
        files.write(handle, b"%d" % n, 0)
    return handles


def test_more_files_than_descriptors(real):
    files = OpenFiles(real, 3)
    handles = written(files, 10)
    assert [files.read(handle, 9, 0) for handle in handles] == [b"%d" % n for n in range(10)]
    assert [files.size(handle) for handle in handles] == [1] * 10
    for handle in handles:
        files.truncate(handle, 0)
        files.sync(handle)
        files.close(handle)
    assert (real.most, real.now, len(files)) == (3, 0, 0)


def test_the_one_used_longest_ago_is_closed(real):
    files = OpenFiles(real, 2)
    first, second = written(files, 2)
    files.read(first, 1, 0)
    files.open("third", create=True)
    opened = real.opened
    files.read(first, 1, 0)
    assert real.opened == opened
    files.read(second, 1, 0)
    assert real.opened == opened + 1


def test_when_the_system_has_no_more_some_are_closed(real):
    real.limit = 8
    files = OpenFiles(real, 1000)
    handles = written(files, 100)
    assert [files.read(handle, 9, 0) for handle in handles] == [b"%d" % n for n in range(100)]
    assert real.now <= 8


def test_when_closing_does_not_help_the_error_is_told(real):
    real.limit = 0
    with pytest.raises(OSError, match="Too many open files"):
        OpenFiles(real, 1000).open("f", create=True)


def test_other_errors_close_nothing(real):
    files = OpenFiles(real, 1000)
    written(files, 10)
    with pytest.raises(FileNotFoundError):
        files.open("nowhere")
    assert real.now == 10


def test_a_removed_file_that_is_open_can_be_read_on(real):
    files = OpenFiles(real, 2)
    handle = written(files, 1)[0]
    files.remove("f0")
    written(files, 5)
    assert files.read(handle, 9, 0) == b"0"


def test_a_removed_file_is_never_mistaken_for_a_new_one_of_its_name(real):
    files = OpenFiles(real, 1)
    handle, _ = written(files, 2)
    files.remove("f0")
    new = files.open("f0", create=True)
    files.write(new, b"new", 0)
    with pytest.raises(FileNotFoundError):
        files.read(handle, 9, 0)
    with pytest.raises(FileNotFoundError):
        files.write(handle, b"old", 0)
    assert files.read(new, 9, 0) == b"new"


def test_a_closed_handle_is_a_bad_one(real):
    files = OpenFiles(real, 1)
    handle = written(files, 1)[0]
    files.close(handle)
    for use in (files.size, files.sync, files.close):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use(handle)


def test_threads_never_see_each_others_files(tmp_path: Path) -> None:
    files = OpenFiles(Files(), 4)
    handles = [files.open(str(tmp_path / str(n)), create=True) for n in range(16)]
    for n, handle in enumerate(handles):
        files.write(handle, bytes([n]) * 1000, 0)
    wrong: list[int] = []

    def read(shift: int) -> None:
        for turn in range(500):
            n = (turn * 7 + shift) % len(handles)
            if files.read(handles[n], 1000, 0) != bytes([n]) * 1000:
                wrong.append(n)

    threads = [threading.Thread(target=read, args=(shift,)) for shift in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(files) <= 8


def test_a_handle_leads_to_its_file_under_the_new_name(real: LimitedFiles) -> None:
    files = OpenFiles(real, 2)
    handles = written(files, 3)
    files.rename("f0", "g0")
    files.rename("f1", "f2")
    written(files, 2)  # closes descriptors, and takes the old names
    assert files.read(handles[0], 9, 0) == b"0"
    assert files.read(handles[1], 9, 0) == b"1"


class CachedFiles(LimitedFiles):
    """Has files in the page cache, if it is told so."""

    may_block = True
    fills_cached = True
    cached = True

    def fill_cached(self, handle: int, buffer: memoryview, position: int) -> bool:
        data = self.read(handle, len(buffer), position)
        buffer[: len(data)] = data
        return self.cached and len(data) == len(buffer)


def refuses(read: Callable[[], bytes]) -> bool:
    try:
        read()
    except NotCached:
        return True
    return False


def test_what_is_cached_is_read_without_waiting():
    disk = CachedFiles(FakeDisk())
    files = OpenFiles(disk, 3)
    handle = files.open("f", create=True)
    files.write(handle, b"0123456789", 0)
    assert [files.read_cached(handle, size, 2) for size in (5, 1, 8)] == [
        b"23456",
        b"2",
        b"23456789",
    ]
    assert refuses(lambda: files.read_cached(handle, 9, 2))
    assert refuses(lambda: files.read_cached(handle, CACHED_MOST + 1, 0))
    disk.cached = False
    assert refuses(lambda: files.read_cached(handle, 5, 2))


def test_a_cached_read_opens_no_file_and_waits_for_no_lock():
    disk = CachedFiles(FakeDisk())
    files = OpenFiles(disk, 1)
    first, second = written(files, 2)
    opened = disk.opened
    assert refuses(lambda: files.read_cached(first, 1, 0))
    assert disk.opened == opened
    assert files.read_cached(second, 1, 0) == b"1"

    def other() -> None:
        with files._lock:
            held.set()
            assert end.wait(20)

    held, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(20)
    assert refuses(lambda: files.read_cached(second, 1, 0))
    end.set()
    thread.join()
    assert files.read_cached(second, 1, 0) == b"1"


def test_a_file_system_that_refuses_cached_reads_is_asked_once(tmp_path, monkeypatch):
    asked = []

    def refused(*call: object) -> int:
        asked.append(call)
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("os.preadv", refused, raising=False)
    monkeypatch.setattr(Files, "fills_cached", True)
    disk = Files()
    files = OpenFiles(disk, 3)
    handle = files.open(str(tmp_path / "f"), create=True)
    files.write(handle, b"0123", 0)
    assert all(refuses(lambda: files.read_cached(handle, 4, 0)) for _ in range(3))
    assert len(asked) == 1
    assert files.read(handle, 4, 0) == b"0123"
    files.close(handle)
