"""`py.typed`: a user's program is checked against the types of what is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environment import Environment

pytestmark = pytest.mark.xdist_group("packaging")

MISTAKES = """
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.record_batch import read_header

request = HeartbeatRequest(group_id=3)
header: int = read_header(b"")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def mypy(environment: Environment, program: Path, cache: Path) -> tuple[int, str]:
    """Exit code and output."""
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file="]
    command += ["--python-executable", str(environment.python), "--cache-dir", str(cache)]
    done = subprocess.run(
        [*command, program.name],
        cwd=program.parent,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_strictly_typed_program_is_right_and_a_mistake_in_it_is_found(
    environment: Environment, project: Path, cache: Path
) -> None:
    assert mypy(environment, project / "typed.py", cache) == (
        0,
        "Success: no issues found in 1 source file\n",
    )
    mistaken = project / "mistaken.py"
    mistaken.write_text(MISTAKES)
    code, told = mypy(environment, mistaken, cache)
    assert code == 1
    assert 'mistaken.py:5: error: Argument "group_id" to "HeartbeatRequest"' in told
    assert "mistaken.py:6: error: Incompatible types in assignment" in told
    assert "Found 2 errors" in told
