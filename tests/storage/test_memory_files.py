"""The file system in memory: it answers as the real one does, on any thread, and serves a store."""

import errno
import gc
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.storage.errors import NotCached
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import MemoryFiles

OF_THE_PROCESS = {"process_id", "random_bytes"}
"""What is no business of a file system."""
MADE_OF_OTHERS = {"copy", "stat"}
"""Calls that call others."""
REFUSED = {"read_cached"}
"""Calls that always raise, unless a class overrides them."""


def test_no_call_reaches_the_disk() -> None:
    calls = {name for name, value in vars(Files).items() if callable(value) and name[0] != "_"}
    assert calls - OF_THE_PROCESS - MADE_OF_OTHERS - REFUSED <= vars(MemoryFiles).keys()


def test_reads_are_never_answered_from_a_page_cache() -> None:
    files = MemoryFiles()
    handle = files.open("a", create=True)
    files.write(handle, b"ab", 0)
    assert not files.fill_cached(handle, memoryview(bytearray(2)), 0)
    with pytest.raises(NotCached):
        files.read_cached(handle, 2, 0)


def test_files_have_the_time_of_their_last_write() -> None:
    now = 5
    files = MemoryFiles(lambda: now)
    handle = files.open("a", create=True)
    assert files.stat("a").modified_ms == 5
    for change in (lambda: files.write(handle, b"ab", 0), lambda: files.truncate(handle, 1)):
        now += 2
        change()
        found = files.stat("a")
        assert (found.size, found.modified_ms) == (len(files.read(handle, 9, 0)), now)
    now += 2
    files.read(handle, 9, 0)
    assert files.stat("a").modified_ms == 9


# -- compared with the real one --------------------------------------------------------------------


class Both:
    """Two file systems that are told to do the same, and must answer the same."""

    PATHS = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "a/below", "missing/a", "./d")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.each: tuple[Files, Files] = (Files(), MemoryFiles())
        self.handles: list[tuple[int, int]] = []
        self.done: list[str] = []

    def path(self) -> str:
        return self.random.choice(self.PATHS)

    def ask(self, name: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        self.done.append(f"{name} {arguments} {options}")
        return self.same([lambda f=f: getattr(f, name)(*arguments, **options) for f in self.each])

    def ask_open(self, name: str, at: int, *arguments: Any) -> tuple[Any, Any]:
        """The same about an open file."""
        self.done.append(f"{name} #{at} {arguments}")
        pairs = zip(self.each, self.handles[at], strict=True)
        return self.same([lambda f=f, h=h: getattr(f, name)(h, *arguments) for f, h in pairs])

    def same(self, calls: list[Callable[[], Any]]) -> tuple[Any, Any]:
        first, second = (self.outcome(call) for call in calls)
        if not isinstance(first, int) or isinstance(first, bool):  # handles differ
            assert first == second, "\n".join(self.done[-10:])
        return first, second

    @staticmethod
    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OSError as error:
            return type(error), error.errno

    def step(self) -> None:
        random, path = self.random, self.path()
        kind = random.randrange(5)
        if kind == 0 or not self.handles:
            handles = self.ask("open", path, create=random.random() < 0.7)
            if isinstance(handles[0], int):
                self.handles.append(handles)
        elif kind == 1:
            name = random.choice(["make_folder", "list_folder", "remove", "remove_folder"])
            self.ask(name, path)
        elif kind == 2:
            self.ask(random.choice(["rename", "link"]), path, self.path())
        else:
            self.step_of_an_open_file(random.randrange(len(self.handles)))

    def step_of_an_open_file(self, at: int) -> None:
        random = self.random
        position, size = random.randrange(60), random.randrange(40)
        name, *arguments = random.choice(
            [
                ("write", random.randbytes(size), position),
                ("read", size, position),
                ("truncate", position),
                ("is_at", self.path()),
                ("lock",),
                ("sync",),
                ("close",),
            ]
        )
        self.ask_open(name, at, *arguments)
        if name == "close":
            del self.handles[at]

    def check(self) -> None:
        for path in self.PATHS:
            self.ask("list_folder", path)
        for at in range(len(self.handles)):
            self.ask_open("read", at, 1000, 0)


@pytest.mark.parametrize("seed", range(30))
def test_it_answers_as_the_real_one_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    both = Both(seed)
    for _ in range(300):
        both.step()
    both.check()
    for files, handle in [pair for handles in both.handles for pair in zip(both.each, handles)]:  # noqa: B905
        files.close(handle)


# -- on any thread ---------------------------------------------------------------------------------


def test_threads_that_make_rename_and_remove_the_same_names_break_nothing() -> None:
    files = MemoryFiles()

    def live(number: int) -> None:
        chance = random.Random(number)
        for _ in range(500):
            files.make_folder("d/e")
            try:
                handle = files.open(f"d/e/{chance.randrange(3)}", create=True)
                files.write(handle, b"x" * 10, 0)
                assert files.read(handle, 10, 0) == b"x" * 10
                files.close(handle)
                files.rename(f"d/e/{chance.randrange(3)}", f"d/{chance.randrange(3)}")
                files.remove_folder("d/e")
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))
    assert set(files.list_folder("d")) <= {"0", "1", "2", "e"}


def test_only_one_thread_gets_a_lock() -> None:
    files = MemoryFiles()
    handles = [files.open("l", create=True) for _ in range(50)]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(files.lock, handles)) == 1


def test_a_reader_sees_whole_writes_of_a_file_that_grows() -> None:
    files = MemoryFiles()
    handle = files.open("f", create=True)

    def write() -> None:
        for number in range(2_000):
            files.write(handle, bytes([number % 251]) * 100, number * 100)

    def read() -> None:
        for _ in range(2_000):
            size = files.size(handle)
            data = files.read(handle, 100, max(size - 100, 0))
            assert len(set(data)) <= 1

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(write), pool.submit(read), pool.submit(read)]:
            done.result()


class Collected:
    """Closes its file when it is collected, as a segment does; not before the collector runs."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._handle = files.open("c", create=True)
        self._cycle = self

    def __del__(self) -> None:
        self._files.close(self._handle)


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """It runs in the middle of everything."""
    before = gc.get_threshold()
    gc.set_threshold(10)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.timeout(120, method="thread")  # a lock that waits for itself hears no signal
def test_a_file_may_be_closed_by_the_collector_in_the_middle_of_a_call() -> None:
    files = MemoryFiles()
    for number in range(2_000):
        Collected(files)
        files.make_folder(f"a/{number % 7}/b")
        assert "a" in files.list_folder(".")
    gc.collect()
    assert files.open("d", create=True) > 2_000
