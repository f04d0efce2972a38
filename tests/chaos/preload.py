"""A slow or hanging disk under a process: preload.c built at run time, and its environment.

    slow = Slow("fsync,fdatasync", data_dir, ms=100)
    environment = slowed([slow], build(folder), flag=folder / "slow")

gives the variables of a process whose syncs below `data_dir` take 100 ms longer while the file
`flag` exists. The head of preload.c says what the variables mean and which functions there are.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("preload.c")
SYNCS = "fsync,fdatasync,syncfs"
NEVER_MS = 86_400_000
"""A call that does not come back: a day."""


class NoCompilerError(Exception):
    """No C compiler builds preload.c here."""


@dataclass(frozen=True, slots=True)
class Slow:
    """One rule: calls of `functions` (names with commas between them) wait `ms` milliseconds if
    the file's absolute path begins with `below`.
    """

    functions: str
    below: Path | str
    ms: int

    def __str__(self) -> str:
        return f"{self.functions}:{self.below}:{self.ms}"


def build(folder: Path) -> Path:
    """The library, compiled into `folder` unless it is there. Raises NoCompilerError."""
    library = folder / "preload.so"
    if not library.exists():
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if compiler is None:
            raise NoCompilerError("slow disks need a C compiler: install cc, or name one in CC")
        new = library.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", new, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        new.replace(library)
    return library


def slowed(
    rules: Sequence[Slow], library: Path, *, flag: Path | None = None, seen: Path | None = None
) -> Mapping[str, str]:
    """Variables for the process. The rules act only while `flag` exists, if one is given; each call
    that waits is a line `THREAD FUNCTION PATH` of `seen`.
    """
    made = {"LD_PRELOAD": str(library), "GK_SLOW": ";".join(map(str, rules))}
    if flag is not None:
        made["GK_SLOW_FLAG"] = str(flag)
    if seen is not None:
        made["GK_SLOW_SEEN"] = str(seen)
    return made
