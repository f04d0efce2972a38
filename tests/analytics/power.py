"""Ends of a run on a folder of tables: killed before a step, or by a power cut. For tests."""

import os
from pathlib import Path

from groupkeeper.analytics.store.durable import DurableFiles
from groupkeeper.analytics.store.folder import TableStore


class KilledError(BaseException):
    """Not to be caught: nothing is tidied up."""


class Death:
    """Ends a run before one of its steps: each changes files of the folder."""

    STEPS = ("write", "move", "remove", "sync")

    def __init__(self, monkeypatch):
        self.at = None
        """The step; None: never."""
        self.steps = []
        for name in self.STEPS:
            monkeypatch.setattr(DurableFiles, name, self._step(getattr(DurableFiles, name)))
        leave = TableStore.__exit__

        def left(store, *error):
            leave(store, *error)
            if self.is_dead:
                Path(store.scratch, "tables").mkdir(parents=True)

        monkeypatch.setattr(TableStore, "__exit__", left)

    @property
    def is_dead(self):
        return self.at is not None and len(self.steps) > self.at

    def _step(self, real):
        def step(*arguments, **options):
            self.steps.append(arguments[1:])
            if self.is_dead:
                raise KilledError
            return real(*arguments, **options)

        return step


class Cache:
    """What only the page cache has, and the disk has not: all that was not synced."""

    def __init__(self, monkeypatch):
        self._disk = {}
        """File -> its bytes, and folder -> name -> what it leads to, when it was synced last."""
        self._open = []
        """Numbers of files are not given again while they are open."""
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, handle):
        number = os.fstat(handle).st_ino
        if number not in self._disk:
            self._open.append(os.dup(handle))
        path = Path(f"/proc/self/fd/{handle}").resolve()
        self._disk[number] = self._names(path) if path.is_dir() else path.read_bytes()

    @staticmethod
    def _names(folder):
        return {each.name: (each.stat().st_ino, each.is_dir()) for each in folder.iterdir()}

    def write_back(self, folder):
        """All of it is on the disk."""
        DurableFiles(folder).sync(
            [".", *(str(each.relative_to(folder)) for each in folder.rglob("*"))]
        )

    def lose(self, folder, left, *, names):
        """What a power cut leaves of a folder; with `names`, the disk had all names already."""
        self._rebuild(folder.stat().st_ino, left, folder if names else None)
        for handle in self._open:
            os.close(handle)
        self._disk, self._open = {}, []

    def _rebuild(self, number, to, cached):
        to.mkdir()
        found = self._disk.get(number, {}) if cached is None else self._names(cached)
        for name, (inode, is_folder) in found.items():
            if is_folder:
                self._rebuild(inode, to / name, cached and cached / name)
            else:
                (to / name).write_bytes(self._disk.get(inode, b""))
