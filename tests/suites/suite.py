"""What a suite of another project is to this harness, and what it tells: nothing runs here.

A suite sets itself up in a folder, is pointed at a broker and tells one `Result` per test. What it
knows to fail, and why, stands in its own module; everything else that fails is a fault.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar


class Outcome(enum.StrEnum):
    """How one test of a suite ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(slots=True, frozen=True)
class Result:
    """One test. `detail` is why it failed or was skipped: a few lines, for a person."""

    name: str
    outcome: Outcome
    seconds: float = 0.0
    detail: str = ""


@dataclass(slots=True, frozen=True)
class Target:
    """The broker that a suite runs against."""

    bootstrap: str
    """HOST:PORT; the broker's Metadata says the same host and port."""
    data_dir: Path | None = None
    """Where our own server keeps its log; None for somebody else's broker."""
    http: str | None = None
    """HOST:PORT of our own server's pages."""


# What `Suite.run` is: a generator, so that leaving it early ends what it started.
Results = Generator[Result, None, None]


class SuiteError(Exception):
    """A suite that cannot be set up or run here; the text is for the person who asked for it."""


class Suite(ABC):
    """Another project's tests. A subclass is listed in `tests/suites/catalogue.py`."""

    name: ClassVar[str]
    """What a person types: `make suites ARGS="franz-go"`."""
    about: ClassVar[str]
    """One sentence: which tests of which project."""
    needs: ClassVar[Sequence[str]] = ()
    """Programs that must be on the PATH."""
    versions: ClassVar[Mapping[str, str]]
    """What is run, pinned: from `tests/suites/versions.py`."""
    limit_s: ClassVar[float] = 300.0
    """Most seconds that a run may take; what is under way then has failed."""
    known: ClassVar[Mapping[str, str]] = {}
    """Pattern of test names (as in a shell) -> why they fail against Groupkeeper."""
    settings: ClassVar[Mapping[str, str]] = {}
    """Server settings that this suite needs beside `tests/suites/ours.py` SETTINGS."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Fetch and build what `run` needs, once; quick when it is there already.

        Raises SuiteError.
        """

    @abstractmethod
    def run(self, target: Target, folder: Path) -> Results:
        """Run the tests and yield each as it ends; a test that is cut off is FAILED.

        Ends every process that it started, also when the iterator is closed early.
        Raises SuiteError if no test could be run at all.
        """

    def summary(self) -> Sequence[str]:
        """Lines about the last run that are worth showing even if all is well."""
        return ()

    def reason(self, name: str) -> str | None:
        """Why this test is known to fail; None if nobody knows."""
        found = (reason for pattern, reason in self.known.items() if fnmatchcase(name, pattern))
        return next(found, None)
