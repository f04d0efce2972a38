"""The real file system, and that the two in memory behave like it: the product's and the fake."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groupkeeper.storage.files.files import Files, FilesToRead
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.storage.store import Store
from tests.support.fake_files import FakeDisk, FakeFiles


@pytest.fixture(params=["real", "memory", "fake"])
def any_files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Files:
    monkeypatch.chdir(tmp_path)
    if request.param == "fake":
        return FakeFiles(FakeDisk())
    return Files() if request.param == "real" else MemoryFiles()


def test_bytes_are_read_where_they_were_written(any_files: Files) -> None:
    any_files.make_folder("a/b")
    handle = any_files.open("a/b/c", create=True)
    any_files.write(handle, b"hello", 3)
    assert any_files.read(handle, 100, 0) == b"\0\0\0hello"
    assert any_files.read(handle, 2, 4) == b"el"
    assert any_files.size(handle) == 8


def test_a_truncated_file_is_shorter(any_files: Files) -> None:
    handle = any_files.open("c", create=True)
    any_files.write(handle, b"hello", 0)
    any_files.truncate(handle, 2)
    assert any_files.read(handle, 100, 0) == b"he"


def test_a_linked_file_has_two_names_until_one_is_removed(any_files: Files) -> None:
    any_files.make_folder("archive")
    handle = any_files.open("c", create=True)
    any_files.write(handle, b"hello", 0)
    any_files.link("c", "archive/c")
    any_files.remove("c")
    again = any_files.open("archive/c")
    assert any_files.read(again, 100, 0) == b"hello"
    assert any_files.is_at(handle, "archive/c")


def test_a_link_replaces_nothing_and_needs_a_file_and_a_folder(any_files: Files) -> None:
    for name in ("a", "b"):
        any_files.close(any_files.open(name, create=True))
    with pytest.raises(FileExistsError):
        any_files.link("a", "b")
    with pytest.raises(FileNotFoundError):
        any_files.link("missing", "c")
    with pytest.raises(FileNotFoundError):
        any_files.link("a", "no/folder")


def test_the_size_of_a_file_and_when_it_was_written(any_files: Files) -> None:
    handle = any_files.open("c", create=True)
    any_files.write(handle, b"hello", 3)
    assert any_files.stat("c").size == 8
    with pytest.raises(FileNotFoundError):
        any_files.stat("d")


def test_the_real_time_of_a_write_is_in_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.touch()
    os.utime(path, (7, 1_700_000_000.5))
    assert Files().stat(str(path)).modified_ms == 1_700_000_000_500


def test_a_removed_file_is_there_for_those_who_have_it_open(any_files: Files) -> None:
    handle = any_files.open("c", create=True)
    any_files.write(handle, b"hello", 0)
    any_files.remove("c")
    again = any_files.open("c", create=True)
    any_files.write(again, b"other", 0)
    assert any_files.read(handle, 100, 0) == b"hello"
    assert any_files.list_folder(".") == ["c"]


def test_a_closed_file_is_no_longer_open(any_files: Files) -> None:
    handle = any_files.open("c", create=True)
    any_files.close(handle)
    calls: list[Callable[[], object]] = [
        lambda: any_files.read(handle, 1, 0),
        lambda: any_files.write(handle, b"x", 0),
        lambda: any_files.truncate(handle, 0),
        lambda: any_files.size(handle),
        lambda: any_files.sync(handle),
        lambda: any_files.close(handle),
    ]
    for call in calls:
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()


def test_random_bytes_do_not_come_twice(any_files: Files) -> None:
    first, second = any_files.random_bytes(8), any_files.random_bytes(8)
    assert len(first) == len(second) == 8
    assert first != second


def test_a_missing_file_is_not_made_unasked(any_files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        any_files.open("missing")
    with pytest.raises(FileNotFoundError):
        any_files.open("no/folder", create=True)


def test_names_come_sorted_and_a_missing_folder_has_none(any_files: Files) -> None:
    any_files.make_folder("d")
    for name in ("b", "a"):
        any_files.close(any_files.open(f"d/{name}", create=True))
    assert any_files.list_folder("d") == ["a", "b"]
    assert any_files.list_folder("e") == []


def test_removing_and_renaming(any_files: Files) -> None:
    any_files.make_folder("d")
    handle = any_files.open("d/a", create=True)
    any_files.write(handle, b"x", 0)
    any_files.rename("d/a", "d/b")
    assert any_files.list_folder("d") == ["b"]
    with pytest.raises(OSError, match="not empty"):
        any_files.remove_folder("d")
    any_files.remove("d/b")
    any_files.remove("d/b")
    any_files.remove_folder("d")
    any_files.remove_folder("d")


def test_two_names_of_a_file_look_alike(any_files: Files) -> None:
    any_files.make_folder("d")
    for name in ("a", "b"):
        any_files.write(any_files.open(name, create=True), b"hello", 0)
    any_files.link("a", "d/c")
    found = any_files.look("a")
    assert found is not None
    assert found.size == 5
    assert any_files.look("d/c") == found
    assert any_files.look("b") != found
    assert any_files.look("missing") is any_files.look("d") is None


def test_a_folder_is_moved_with_all_that_is_in_it(any_files: Files) -> None:
    any_files.make_folder("a/b")
    any_files.make_folder("d")
    any_files.write(any_files.open("a/b/c", create=True), b"hello", 0)
    any_files.rename("a", "d")
    assert any_files.list_folder("d/b") == ["c"]
    assert any_files.list_folder("a") == []
    any_files.make_folder("e")
    with pytest.raises(OSError, match="not empty"):
        any_files.rename("e", "d")


def test_all_is_written_back(any_files: Files) -> None:
    any_files.write(any_files.open("a", create=True), b"hello", 0)
    any_files.write_back()


def test_who_only_reads_opens_files_without_the_right_to_write(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"hello")
    path.chmod(0o440)
    files = FilesToRead()
    handle = files.open(str(path))
    assert files.read(handle, 9, 0) == b"hello"
    files.sync(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write(handle, b"x", 0)
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "b"), create=True)


def test_a_lock_is_held_until_its_file_is_closed(any_files: Files) -> None:
    first = any_files.open("l", create=True)
    second = any_files.open("l")
    assert any_files.lock(first)
    assert not any_files.lock(second)
    any_files.close(first)
    assert any_files.lock(second)


def test_everything_can_be_synced(any_files: Files) -> None:
    any_files.make_folder("d")
    handle = any_files.open("d/a", create=True)
    any_files.sync(handle)
    any_files.sync_folder("d")
    any_files.sync_folder(".")


def test_handles_are_not_inherited(tmp_path: Path) -> None:
    handle = Files().open(str(tmp_path / "a"), create=True)
    assert not os.get_inheritable(handle)


@pytest.fixture
def umask_of_zero() -> Iterator[None]:
    """As some service managers and containers start processes: nothing is masked."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask_of_zero")
def test_others_are_let_into_nothing_that_is_made(tmp_path: Path) -> None:
    files = Files()
    files.make_folder(str(tmp_path / "a" / "b"))
    files.open(str(tmp_path / "a" / "b" / "c"), create=True)
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o750
    assert mode_of(tmp_path / "a" / "b" / "c") == 0o640


@pytest.mark.usefixtures("umask_of_zero")
def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    folder, file = tmp_path / "a", tmp_path / "a" / "b"
    folder.mkdir(mode=0o777)
    file.touch(mode=0o666)
    Files().make_folder(str(folder))
    Files().open(str(file), create=True)
    assert (mode_of(folder), mode_of(file)) == (0o777, 0o666)


def test_the_umask_masks_more(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        Files().make_folder(str(tmp_path / "a"))
        Files().open(str(tmp_path / "b"), create=True)
    finally:
        os.umask(before)
    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "b")) == (0o700, 0o600)


def test_a_folder_is_not_made_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        Files().make_folder(str(tmp_path / "a"))
    with pytest.raises(NotADirectoryError):
        Files().make_folder(str(tmp_path / "a" / "b"))


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        Files().write(Files().open("/dev/full"), b"x", 0)


SECOND = """
import sys
from groupkeeper.storage.errors import Locked
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.store import Store
try:
    Store(Files(), sys.argv[1], 0)
except Locked as error:
    print(error)
"""


def test_a_second_process_is_refused_in_one_line(tmp_path: Path) -> None:
    store = Store(Files(), str(tmp_path), 0)
    command = [sys.executable, "-c", SECOND, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert refused.stdout == (
        f"node 0 is already running on {tmp_path} (pid {os.getpid()}); "
        "stop it or choose another --node-id or --data-dir\n"
    )
    store.close()
    allowed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert allowed.stdout == ""


def test_an_open_file_is_at_its_path_until_it_is_removed_or_replaced(any_files: Files) -> None:
    files = any_files
    files.make_folder("folder")
    handle = files.open("folder/file", create=True)
    assert files.is_at(handle, "folder/file")
    other = files.open("folder/other", create=True)
    assert not files.is_at(other, "folder/file")
    files.rename("folder/other", "folder/file")
    assert not files.is_at(handle, "folder/file")
    assert files.is_at(other, "folder/file")
    files.remove("folder/file")
    assert not files.is_at(other, "folder/file")
    assert not files.is_at(other, "folder/file/below")


def test_the_stamp_of_a_folder_changes_with_its_names(any_files: Files) -> None:
    files = any_files
    assert files.stamp("folder") == ()
    files.make_folder("folder")
    stamps = [files.stamp("folder")]
    changes: list[Callable[[], None]] = [
        lambda: files.close(files.open("folder/file", create=True)),
        lambda: files.rename("folder/file", "folder/other"),
        lambda: files.remove("folder/other"),
    ]
    for change in changes:
        time.sleep(0.02)  # more than the clock of a file system needs
        change()
        stamps.append(files.stamp("folder"))
    assert len(set(stamps)) == 4
    assert files.stamp("folder") == stamps[-1]
