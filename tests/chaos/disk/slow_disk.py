"""A disk that is as slow as an attack says, under a real server process: see slow_disk.c."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SOURCE = Path(__file__).with_name("slow_disk.c")
_RULES = "slow"
_CALLS = "loop-calls"

Rule = tuple[str, str, int]
"""A kind of call (write, read, sync, name), a part of the path, and milliseconds."""


class NoCompilerError(Exception):
    """The library cannot be built."""


def environment(folder: Path) -> Mapping[str, str]:
    """Build the library, for a server whose data directory is in the folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("attacks with a slow disk need a C compiler: install cc")
    folder = folder.resolve()  # the server runs in another one
    library = folder / "slow_disk.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return {
        "LD_PRELOAD": str(library),
        "SLOW_DISK": str(folder / _RULES),
        "LOOP_CALLS": str(folder / _CALLS),
    }


def slow_down(folder: Path, rules: Sequence[Rule]) -> None:
    """From now on these calls take longer, and those of the event loop are listed."""
    new = folder / f"{_RULES}.new"
    new.write_text("".join(f"{call} {part} {ms}\n" for call, part, ms in rules))
    new.replace(folder / _RULES)


def loop_calls(folder: Path) -> list[str]:
    """The file calls of the event loop's thread since `slow_down`, each kind and path once."""
    calls = folder / _CALLS
    return sorted(set(calls.read_text().splitlines())) if calls.exists() else []
