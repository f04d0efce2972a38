"""A disk in memory that forgets what was not synced, tears what was half written, and fails on
demand.

Complete enough to run a whole Store, or several processes of one, under virtual time. One
FakeDisk is one machine; every process has a FakeFiles on it.

    disk = FakeDisk()
    files = FakeFiles(disk)
    disk.crash_at = 17          # the power goes in the middle of the 17th call that changes it
    ...                         # raises Crash
    disk.power_cut("tear", seed=3)
    files = FakeFiles(disk)     # the next process

What a power cut leaves is its mode: "lose" keeps nothing unsynced, "names" keeps names but
no bytes, "keep" keeps all, "tear" keeps each unsynced write whole, in part, as zeros or not at
all, "spoil" spoils a sector in each: it is lost whole, with what others wrote in it before. Names
made and removed in one folder survive in their order, as a journalling file system has it; nothing
is promised between two folders, or between names and bytes.

A sync takes to the disk what was written since the last one, and no more: after one that failed the
page cache reads as before, is clean, and the disk never gets those bytes, unless they are written
once more. tests/storage/test_fake_files.py says all this in tests.
"""

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from groupkeeper.storage.files.files import Files, FileStat

SECTOR = 512
ROOT = "."


class Crash(BaseException):
    """The process is gone; nothing may catch it but the test."""


@dataclass(eq=False)
class Inode:
    """A file without its name: what processes see, what the disk has, and the writes between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    holder: tuple["FakeFiles", int] | None = None
    modified_ms: int = 0

    def apply(self, position: int, data: bytes | None) -> None:
        self.pending.append((position, data))
        _apply(self.data, position, data)

    def copy(self) -> "Inode":
        data, durable = bytearray(self.data), bytearray(self.durable)
        return Inode(data, durable, list(self.pending), modified_ms=self.modified_ms)

    def sync(self) -> None:
        for write in self.pending:
            _apply(self.durable, *write)
        self.pending.clear()

    def fail_to_sync(self) -> None:
        """As Linux does: the pages are marked clean, and stay in the cache as they are."""
        self.pending.clear()

    def lose_power(self, mode: str, random: Random) -> None:
        for position, data in self.pending:
            if data and mode == "spoil":
                _apply(self.durable, position, data)
                _spoil(self.durable, random.randrange(position, position + len(data)), random)
                continue
            kept = _survivor(mode, data, random)
            if kept is not None:
                _apply(self.durable, position, kept if data is not None else None)
        self.data = bytearray(self.durable)
        self.pending.clear()
        self.holder = None


def _survivor(mode: str, data: bytes | None, random: Random) -> bytes | None:
    """What is left of an unsynced write; None for nothing. A truncation happens or does not."""
    fate = {"lose": "gone", "names": "gone", "keep": "whole"}.get(mode) or random.choice(
        ["whole", "gone", "front", "zeros", "holes"]
    )
    if fate == "gone" or data is None:
        return b"" if data is None and fate == "whole" else None
    if fate == "front":
        return data[: random.randrange(len(data) + 1)]
    if fate == "zeros":
        return bytes(len(data))
    if fate == "holes":
        pieces = [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]
        return b"".join(random.choice([piece, bytes(len(piece))]) for piece in pieces)
    return data


def _spoil(target: bytearray, position: int, random: Random) -> None:
    """The sector that holds a position was being written: nothing in it is what anybody wrote."""
    start = position - position % SECTOR
    size = len(target[start : start + SECTOR])
    target[start : start + size] = random.randbytes(size)


def _apply(target: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del target[position:]
        target.extend(bytes(position - len(target)))
        return
    target.extend(bytes(max(0, position - len(target))))
    target[position : position + len(data)] = data


Tree = dict[str, Inode | None]  # path -> file, or None for a folder
Change = tuple[str, str, Inode | None, str]  # add, remove or rename; path; file; its old name


class FakeDisk:
    """One machine's disk and page cache."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.calls = 0
        self.crash_at: int | None = None
        self.failures: dict[int, OSError] = {}
        self.trace: list[str] = []
        self.dead = False
        self.random = Random(0)
        self.boots = 1
        self.wall_ms: Callable[[], int] = lambda: 0
        """The clock that files get their times from."""
        self.changes = Counter[str]()
        """Of the names in each folder."""
        self._tree: Tree = {ROOT: None}
        self._durable: Tree = {ROOT: None}
        self._pending: list[Change] = []

    # -- names

    def lookup(self, path: str) -> Inode | None:
        if path not in self._tree:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._tree[path]

    def has(self, path: str) -> bool:
        return path in self._tree

    def children(self, path: str) -> list[str]:
        return sorted(
            name.rpartition("/")[2] for name in self._tree if name != ROOT and parent(name) == path
        )

    def change(self, kind: str, path: str, inode: Inode | None = None, old: str = "") -> None:
        for changed in {parent(path), parent(old)} if old else {parent(path)}:
            self.changes[changed] += 1
        self._pending.append((kind, path, inode, old))
        _change(self._tree, kind, path, inode, old)

    def sync_names(self, folder: str) -> None:
        done = [entry for entry in self._pending if parent(entry[1]) == folder]
        self._pending = [entry for entry in self._pending if entry not in done]
        for entry in done:
            _change(self._durable, *entry)

    # -- faults

    def step(self, what: str) -> bool:
        """Count a call that changes something. True: the power goes in the middle of it."""
        if self.dead:
            raise Crash
        self.calls += 1
        self.trace.append(what)
        if self.calls == self.crash_at:
            self.dead = True
            return True
        return False

    def failure(self) -> OSError | None:
        return self.failures.get(self.calls)

    def room(self) -> int:
        if self.capacity is None:
            return 1 << 62
        return self.capacity - self.used()

    def used(self) -> int:
        inodes = {id(inode): inode for inode in self._tree.values() if inode}  # links count once
        return sum(len(inode.data) for inode in inodes.values())

    def files(self) -> Iterator[tuple[str, int]]:
        """Path and size of every file."""
        return ((path, len(inode.data)) for path, inode in self._tree.items() if inode)

    def write_back(self) -> None:
        """The kernel has written everything back, as it does in time without being asked."""
        for entry in self._pending:
            _change(self._durable, *entry)
        self._pending.clear()
        for inode in filter(None, self._tree.values()):
            inode.sync()

    def write_back_files(self, folder: str) -> None:
        """The same for the bytes in the files of one folder."""
        for path, inode in self._tree.items():
            if inode is not None and parent(path) == folder:
                inode.sync()

    def power_cut(self, mode: str = "lose", seed: int = 0) -> None:
        """Every process is gone and the page cache with it."""
        self.boots += 1
        random = Random(seed)
        by_folder: dict[str, list[Change]] = {}
        for entry in self._pending:
            by_folder.setdefault(parent(entry[1]), []).append(entry)
        for entries in by_folder.values():
            kept = {"lose": 0, "tear": random.randrange(len(entries) + 1)}.get(mode, len(entries))
            for entry in entries[:kept]:
                _change(self._durable, *entry)
        self._pending.clear()
        reachable: Tree = {}
        for path in sorted(self._durable, key=lambda path: (path != ROOT, path.count("/"))):
            if path == ROOT or parent(path) in reachable:
                reachable[path] = self._durable[path]
        for inode in {id(inode): inode for inode in reachable.values() if inode}.values():
            inode.lose_power(mode, random)
        self._durable = reachable
        self._tree = dict(reachable)
        self.revive()

    def revive(self) -> None:
        """After a Crash that is to be a `kill -9`: the page cache is still there, the process is
        not.
        """
        self.dead = False
        self.crash_at = None
        for inode in self._tree.values():
            if inode is not None:
                inode.holder = None

    def remove(self, path: str) -> None:
        """A file, or a folder and all in it, as somebody else's `rm -r` does it."""
        for found in [each for each in self._tree if f"{each}/".startswith(f"{path}/")]:
            self.change("remove", found)

    def flip(self, path: str, position: int, bit: int = 1) -> None:
        """Damage a byte, on the disk and in the cache."""
        inode = self.lookup(path)
        assert inode is not None
        inode.sync()
        inode.data[position] ^= bit
        inode.durable[position] ^= bit

    def contents(self, path: str) -> bytes:
        inode = self.lookup(path)
        assert inode is not None
        return bytes(inode.data)

    def copy(self, leave_out: str = "") -> "FakeDisk":
        """Another machine with the same disk and page cache at this moment, and no process.

        `leave_out` is a folder that it lacks.
        """
        twins: dict[int, Inode] = {}

        def twin(inode: Inode | None) -> Inode | None:
            if inode is not None and id(inode) not in twins:
                twins[id(inode)] = inode.copy()
            return inode and twins[id(inode)]

        def is_wanted(path: str) -> bool:
            return not (leave_out and f"{path}/".startswith(f"{leave_out}/"))

        other = FakeDisk()
        other.boots, other.wall_ms = self.boots, self.wall_ms
        other.random.setstate(self.random.getstate())
        for tree, theirs in ((self._tree, other._tree), (self._durable, other._durable)):
            theirs.update((path, twin(inode)) for path, inode in tree.items() if is_wanted(path))
        for kind, path, inode, old in self._pending:
            if is_wanted(path):
                other._pending.append((kind, path, twin(inode), old))
        return other


def parent(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def _change(tree: Tree, kind: str, path: str, inode: Inode | None, old: str) -> None:
    if kind == "remove":
        tree.pop(path, None)
        return
    tree[path] = inode
    tree.pop(old, None)
    if old and inode is None:  # a folder takes along what is in it
        for below in [each for each in tree if each.startswith(f"{old}/")]:
            tree[path + below.removeprefix(old)] = tree.pop(below)


class FakeFiles(Files):
    """The file system as one process sees it."""

    _pids = count(1000)

    may_block = False

    def __init__(self, disk: FakeDisk) -> None:
        self.disk = disk
        self._handles: dict[int, tuple[str, Inode]] = {}
        self._next = count(3)
        self._pid = next(self._pids)

    @property
    def open_paths(self) -> list[str]:
        """The path that each open file had when it was opened."""
        return [path for path, _ in self._handles.values()]

    def path_of(self, handle: int) -> str:
        return self._handles[handle][0]

    def process_id(self) -> int:
        return self._pid

    def boot_id(self) -> str:
        return f"boot-{self.disk.boots}"

    def random_bytes(self, size: int) -> bytes:
        return self.disk.random.randbytes(size)

    def kill(self) -> None:
        """`kill -9`: handles and locks are gone, the page cache stays."""
        for handle in list(self._handles):
            self._release(handle)

    def make_folder(self, path: str) -> None:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            folder = "/".join(parts[:end])
            if not self.disk.has(folder):
                self._step(f"mkdir {folder}")
                self.disk.change("add", folder)

    def list_folder(self, path: str) -> list[str]:
        return self.disk.children(path)

    def open(self, path: str, *, create: bool = False) -> int:
        if create and not self.disk.has(path):
            self.disk.lookup(parent(path))
            self._step(f"create {path}")
            self.disk.change("add", path, Inode(modified_ms=self.disk.wall_ms()))
        inode = self.disk.lookup(path)
        if inode is None:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        handle = next(self._next)
        self._handles[handle] = (path, inode)
        return handle

    def close(self, handle: int) -> None:
        """Of a dead process, too: the kernel closes what it had open."""
        if handle not in self._handles:
            raise OSError(errno.EBADF, "Bad file descriptor")
        self._release(handle)

    def is_at(self, handle: int, path: str) -> bool:
        return self.disk.has(path) and self.disk.lookup(path) is self._inode(handle)

    def look(self, path: str) -> FileStat | None:
        inode = self.disk.lookup(path) if self.disk.has(path) else None
        if inode is None:
            return None
        return FileStat(len(inode.data), inode.modified_ms, (1, id(inode)))

    def space(self, folder: str) -> tuple[int, int]:
        return 1 << 40, 1 << 39

    def stamp(self, folder: str) -> tuple[int, ...]:
        return (self.disk.changes[folder],) if self.disk.has(folder) else ()

    def size(self, handle: int) -> int:
        return len(self._inode(handle).data)

    def read(self, handle: int, size: int, position: int) -> bytes:
        return bytes(self._inode(handle).data[position : position + size])

    def write(self, handle: int, data: bytes, position: int) -> None:
        inode = self._inode(handle)
        crash = self.disk.step(f"write {self.path_of(handle)} {len(data)} at {position}")
        error = self.disk.failure()
        if position + len(data) - len(inode.data) > self.disk.room():
            error = OSError(errno.ENOSPC, "No space left on device")
        inode.modified_ms = self.disk.wall_ms()
        if crash or error:
            inode.apply(position, data[: len(data) // 2])
            if error:
                raise error
            raise Crash
        inode.apply(position, data)

    def truncate(self, handle: int, size: int) -> None:
        inode = self._inode(handle)
        self._step(f"truncate {self.path_of(handle)} to {size}")
        inode.modified_ms = self.disk.wall_ms()
        inode.apply(size, None)

    def sync(self, handle: int) -> None:
        inode = self._inode(handle)
        try:
            self._step(f"sync {self.path_of(handle)}")
        except OSError:
            inode.fail_to_sync()
            raise
        inode.sync()

    def sync_folder(self, path: str) -> None:
        self.disk.lookup(path)
        self._step(f"sync folder {path}")
        self.disk.sync_names(path)

    def write_back(self) -> None:
        """Promises nothing."""

    def rename(self, path: str, to: str) -> None:
        inode = self.disk.lookup(path)
        if self.disk.children(to):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", to)
        self._step(f"rename {path} to {to}")
        self.disk.change("rename", to, inode, path)

    def link(self, path: str, to: str) -> None:
        inode = self.disk.lookup(path)
        self.disk.lookup(parent(to))
        if self.disk.has(to):
            raise FileExistsError(errno.EEXIST, "File exists", to)
        self._step(f"link {path} as {to}")
        self.disk.change("add", to, inode)

    def remove(self, path: str) -> None:
        if self.disk.has(path):
            self._step(f"remove {path}")
            self.disk.change("remove", path)

    def remove_folder(self, path: str) -> None:
        if self.disk.children(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        if self.disk.has(path):
            self._step(f"rmdir {path}")
            self.disk.change("remove", path)

    def lock(self, handle: int) -> bool:
        inode = self._inode(handle)
        if inode.holder not in (None, (self, handle)):
            return False
        inode.holder = (self, handle)
        return True

    def _step(self, what: str) -> None:
        if self.disk.step(what):
            raise Crash
        error = self.disk.failure()
        if error:
            raise error

    def _inode(self, handle: int) -> Inode:
        if self.disk.dead:
            raise Crash
        if handle not in self._handles:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return self._handles[handle][1]

    def _release(self, handle: int) -> None:
        _, inode = self._handles.pop(handle)
        if inode.holder == (self, handle):
            inode.holder = None


class CountingFiles(FakeFiles):
    """Counts the bytes that are read."""

    bytes_read = 0

    def read(self, handle: int, size: int, position: int) -> bytes:
        data = super().read(handle, size, position)
        self.bytes_read += len(data)
        return data
