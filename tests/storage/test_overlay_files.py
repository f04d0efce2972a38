"""Files whose changes stay in memory: the same answers as from a disk, which stays as it is."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from groupkeeper.storage.files.files import Files, FilesToRead
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.storage.files.overlay import OverlayFiles
from tests.support.fake_files import FakeDisk, FakeFiles, parent
from tests.support.stored import write_file

NAMES = ("a", "b", "c")
FOLDERS = ("data", "data/x", "data/y")
PLACES = [(folder, name) for folder in FOLDERS for name in NAMES]


def made(seed: int) -> FakeDisk:
    disk = FakeDisk()
    FakeFiles(disk).make_folder("data/x")
    random = Random(seed)
    for name in NAMES[:2]:
        write_file(disk, f"data/x/{name}", random.randbytes(random.randrange(2_000)))
    return disk


def shown(below: Files) -> OverlayFiles:
    overlay = OverlayFiles(below)
    for folder in FOLDERS[:2]:
        overlay.show(folder)
    return overlay


def act(files: Files, random: Random) -> object:
    """One call, drawn at random; returns what it says, errors included."""
    path, other = (f"{folder}/{name}" for folder, name in random.sample(PLACES, 2))
    kind = random.randrange(11)
    calls: dict[int, Callable[[], object]] = {
        0: lambda: files.list_folder(random.choice(FOLDERS)),
        1: lambda: files.make_folder("data/y"),
        2: lambda: files.stamp(parent(other)) and files.rename(path, other),
        3: lambda: files.link(path, other),
        4: lambda: files.remove(path),
        5: lambda: files.remove_folder(random.choice(FOLDERS[1:])),
    }
    try:
        return calls.get(kind, lambda: change(files, random, kind, path, other))()
    except OSError as error:
        return type(error)


def change(files: Files, random: Random, kind: int, path: str, other: str) -> object:
    position, size = random.randrange(2_500), random.randrange(800)
    handle = files.open(path, create=kind == 6)
    if kind == 7:
        data = random.randbytes(random.choice([1, 10, 700]))
        files.write(handle, data, min(position, files.size(handle)))
    if kind == 8:
        files.truncate(handle, position)
    if kind == 9:
        files.write(handle, files.read(handle, size, 0), 0)
    if kind == 10:
        source = files.open(other)
        files.copy(source, position, size, handle, position // 2)
        files.close(source)
    said = files.size(handle), files.read(handle, size, position), files.is_at(handle, path)
    files.close(handle)
    return said


@pytest.mark.parametrize("in_memory", [1_000, 1 << 20])
def test_it_answers_as_a_disk_and_leaves_the_disk_alone(
    in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.storage.files.overlay.IN_MEMORY", in_memory)
    for seed in range(50):
        check_against_memory(seed)


def check_against_memory(seed: int) -> None:
    below, like = made(seed), MemoryFiles()
    like.make_folder("data/x")
    for name in NAMES[:2]:
        like.write(like.open(f"data/x/{name}", create=True), below.contents(f"data/x/{name}"), 0)
    before = below.calls
    overlay = shown(FakeFiles(below))
    for step in range(300):
        one, other = Random(f"{seed} {step}"), Random(f"{seed} {step}")
        assert act(overlay, one) == act(like, other), (seed, step)
    assert below.calls == before
    for folder in FOLDERS:
        overlay.show(folder)
    again = FakeFiles(made(seed))
    assert overlay.list_folder("data/x") == again.list_folder("data/x")
    assert overlay.list_folder("data/y") == []


def contents(files: Files, path: str) -> bytes:
    handle = files.open(path)
    try:
        return files.read(handle, files.size(handle), 0)
    finally:
        files.close(handle)


def test_the_files_that_would_be_overwritten_are_known() -> None:
    overlay = shown(FakeFiles(made(0)))
    for name in NAMES[:2]:
        overlay.link(f"data/x/{name}", f"data/x/{name}{name}")
    one, other = overlay.open("data/x/a"), overlay.open("data/x/b")
    assert overlay.overwritten == set()
    overlay.truncate(other, 3)
    assert overlay.overwritten == {"data/x/b"}
    overlay.write(one, overlay.read(one, 10, 0), 0)
    assert overlay.overwritten == {"data/x/a", "data/x/b"}
    assert contents(overlay, "data/x/bb") == overlay.read(other, 3, 0)
    overlay.show("data/x")
    assert overlay.overwritten == set()


def test_what_is_forgotten_is_not_seen_again_while_a_file_is_open() -> None:
    overlay = shown(FakeFiles(made(0)))
    before = contents(overlay, "data/x/a")
    handle = overlay.open("data/x/a")
    overlay.truncate(handle, 3)
    overlay.show("data/x")
    assert contents(overlay, "data/x/a") == before
    assert overlay.size(handle) == 3


def test_what_is_known_of_a_file() -> None:
    below = FakeFiles(made(0))
    overlay = shown(below)
    size = below.stat("data/x/a").size
    assert overlay.stat("data/x/a").size == size != overlay.stat("data/x/b").size
    overlay.rename("data/x/a", "data/x/c")
    assert overlay.stat("data/x/c").size == size
    assert overlay.look("data/x/a") is None
    overlay.truncate(overlay.open("data/x/c"), 7)
    assert overlay.stat("data/x/c").size == 7


def test_a_lock_is_known_here_only() -> None:
    disk = made(0)
    overlay, other = shown(FakeFiles(disk)), FakeFiles(disk)
    assert other.lock(other.open("data/x/a"))
    assert overlay.lock(overlay.open("data/x/a"))


def test_a_file_that_was_removed_stays_so_when_it_is_written_to() -> None:
    overlay = shown(FakeFiles(made(0)))
    handle = overlay.open("data/x/a")
    overlay.remove("data/x/a")
    overlay.write(handle, b"more", overlay.size(handle))
    assert overlay.list_folder("data/x") == ["b"]
    with pytest.raises(FileNotFoundError):
        overlay.open("data/x/a")


def test_files_that_may_only_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    path.chmod(0o400)
    overlay = OverlayFiles(FilesToRead())
    overlay.show(str(tmp_path))
    handle = overlay.open(str(path))
    overlay.write(handle, b"B", 0)
    assert overlay.read(handle, 10, 0) == b"Bytes"
    assert path.read_bytes() == b"bytes"
    files = FilesToRead()
    handle = files.open(str(path))
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write(handle, b"B", 0)
