"""What an attack is, what it is told about the server, and how it complains.

An attack is a generator function over a `Target`: what stands before its only `yield` prepares
the server (topics, groups) and is not measured, what stands behind it is. It returns a few words
about what became of it, and raises `Complaint` when the server did what it must not.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.preload import Slow
from tests.support.process import ROOT
from tests.support.wire import Address

MIB = 1 << 20
BUDGET_MIB = 256
"""Of bytes held for requests, and as much again for unsent answers: the server's defaults."""


class Complaint(Exception):
    """What the server did and must not; a few words for the verdict."""


@dataclass(frozen=True)
class Target:
    """The server under attack, as far as its clients and its operator know it."""

    kafka: Address
    http: Address
    pid: int
    data_dir: Path
    fuzz_seconds: float
    """How long the one attack takes whose length is a matter of choice."""
    checkout: Path = ROOT
    """Whose code runs, also in servers that an attack starts."""
    ports: Mapping[str, Address] = field(default_factory=dict)
    """Of all listeners by name, if the attack wants several."""

    @property
    def folder(self) -> Path:
        """Where the server's log is, and what it has been given."""
        return self.data_dir.parent


Steps = Generator[None, None, str]
Play = Callable[[Target], Steps]


@dataclass(frozen=True)
class Limits:
    """What an attack may do to the server and to others; exceptions stand beside each attack."""

    stall_ms: float = 50.0
    """Slowest heartbeat of another client."""
    growth_mib: float = 64.0
    """Peak of the server's memory above what it had before."""
    kept_mib: float = 48.0
    """What may be left of it a moment after the attack: what is freed between things that stay is
    not given back."""
    log_lines: int = 600
    """Lines of log for an attack, and as many again for every ten seconds it takes: three causes
    with 200 each."""
    seconds: float = 60.0
    """Longest that an attack may take."""


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    name: str
    family: str
    about: str
    """One line: what is done."""
    play: Play
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    descriptors: int = 0
    """Open files that the server is allowed; 0 for as many as this process is."""
    log_unread: bool = False
    """Standard error is a pipe that nobody reads."""
    disk_mib: int = 0
    """Size of the disk that the data directory is on, which is mounted for it; 0 for any."""
    slow_disk: Sequence[Slow] = ()
    """File calls that it makes slow, as in `Needs` of server.py. Needs a C compiler."""
    secure: bool = False
    """The server has ports with TLS and logins beside the plain one: see secure.py."""


def check(ok: bool, words: str) -> None:
    """Raises Complaint unless it is so."""
    if not ok:
        raise Complaint(words)
