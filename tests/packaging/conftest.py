"""What the tests install: a wheel and an sdist of this checkout, each built once.

So one process has all these tests: they are a group of xdist.
"""

import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.environment import Environment
from tests.packaging.interpreters import THIS, find

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Made = Callable[[str, int], Environment]


def build(kind: str, source: Path, to: Path) -> Path:
    """Build a wheel or an sdist."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(to)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    [built] = to.iterdir()
    return built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    [source] = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel-of-sdist"))


@pytest.fixture(scope="session")
def made(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Environments with Groupkeeper, by how it was installed and Python's minor version."""

    @cache
    def made(how: str, minor: int) -> Environment:
        environment = Environment(find(minor), tmp_path_factory.mktemp(f"{how}-3.{minor}"))
        environment.add(ROOT / "requirements" / "server.txt")
        if how == "wheel":
            environment.install(wheel)
        else:
            environment.add(ROOT / "requirements" / "build.txt")
            environment.install("--no-build-isolation", "--editable", ROOT)
        return environment

    return made


@pytest.fixture(params=["wheel", "editable"])
def environment(made: Made, request: pytest.FixtureRequest) -> Environment:
    return made(request.param, THIS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with packages of the names that our folders have."""
    folder = tmp_path / "project"
    for name in ("coordinator", "protocol", "storage"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f'OWNER: str = "the user, {name}"\n')
        # Modules that ours have as well.
        for module in ("errors", "group", "log", "message"):
            (folder / name / f"{module}.py").write_text(f'OWNER: str = "the user, {name}"\n')
    for program in (HERE / "programs").glob("*.py"):
        (folder / program.name).write_bytes(program.read_bytes())
    return folder
