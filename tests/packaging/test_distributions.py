"""What a wheel and an sdist hold, and what installing one adds to an environment."""

import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from email.parser import BytesParser
from pathlib import Path

import pytest

import groupkeeper
from tests.packaging.conftest import build
from tests.packaging.environment import Environment
from tests.packaging.interpreters import THIS, TOO_OLD, find
from tests.test_container import DOCKERFILE

pytestmark = pytest.mark.xdist_group("packaging")

ROOT = Path(__file__).parents[2]
FOLDERS = ("coordinator", "protocol", "storage")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_every_module_of_the_checkout_once_and_the_pages(wheel: Path) -> None:
    folders = {ROOT / "groupkeeper": "groupkeeper"}
    folders |= {ROOT / folder: f"groupkeeper/{folder}" for folder in FOLDERS}
    modules = {
        f"{name}/{path.relative_to(folder)}": path.read_bytes()
        for folder, name in folders.items()
        for path in folder.rglob("*.py")
    }
    for page in (
        "groupkeeper/web/page",
        "groupkeeper/analytics/page",
        "groupkeeper/analytics/questions",
        "groupkeeper/analytics/what_if/histories",
    ):
        files = [path for path in (ROOT / page).iterdir() if path.suffix not in ("", ".py")]
        modules |= {f"{page}/{path.name}": path.read_bytes() for path in files}
    found = {name: data for name, data in contents(wheel).items() if ".dist-info/" not in name}
    assert found == modules | {"groupkeeper/py.typed": b""}


def test_the_wheel_says_what_an_index_shows_and_what_an_installer_needs(wheel: Path) -> None:
    version = groupkeeper.__version__
    folder = f"groupkeeper-{version}.dist-info"
    found = contents(wheel)
    told = BytesParser().parsebytes(found[f"{folder}/METADATA"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (told["Name"], told["Version"]) == ("groupkeeper", version)
    assert told["Requires-Python"] == project["requires-python"]
    assert told["License-Expression"] == project["license"]
    assert told.get_all("Classifier") == project["classifiers"]
    assert told.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
    assert found[f"{folder}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    entries = ConfigParser(delimiters="=")
    entries.read_string(found[f"{folder}/entry_points.txt"].decode())
    assert dict(entries["console_scripts"]) == project["scripts"]
    assert dict(entries["pytest11"]) == project["entry-points"]["pytest11"]


@pytest.mark.parametrize("built", ["wheel", "wheel_of_sdist"])
def test_installing_adds_one_top_level_name(
    built: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    distribution = request.getfixturevalue(built)
    environment = Environment(find(THIS), tmp_path)
    before = environment.names()
    environment.install(distribution)
    version = distribution.name.split("-")[1]
    # The second `groupkeeper` is the command.
    assert environment.names() - before == {"groupkeeper", f"groupkeeper-{version}.dist-info"}
    assert environment.script.is_file()
    assert environment.run(environment.python, "-c", FINDS, cwd=tmp_path).split() == ["groupkeeper"]


FINDS = """
from importlib.util import find_spec
for name in "groupkeeper", "coordinator", "protocol", "storage", "benchmarks", "docs", "tests":
    if find_spec(name):
        print(name)
"""


def test_the_sdist_makes_the_same_wheel(wheel: Path, wheel_of_sdist: Path) -> None:
    assert contents(wheel_of_sdist) == contents(wheel)


def test_what_the_dockerfile_copies_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """As COPY does: links inside a folder stay links."""
    source = tmp_path / "src"
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for each in (each for copy in copies for each in copy.split()):
        if (ROOT / each).is_dir():
            shutil.copytree(ROOT / each, source / each, symlinks=True)
        else:
            (source / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / each, source / each)
    assert contents(build("wheel", source, tmp_path / "built")) == contents(wheel)


def test_the_sdist_has_files_only_and_nothing_that_is_made(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert [member.name for member in members if not (member.isfile() or member.isdir())] == []
    paths = [Path(member.name).parts for member in members]
    assert len({top for top, *_ in paths}) == 1
    hidden = {path[1] for path in paths if path[1].startswith(".")}
    assert hidden <= {".github", ".gitattributes", ".gitignore", ".pre-commit-config.yaml"}
    made = {"__pycache__", "groupkeeper-data", "dist", "build", "site", *FOLDERS}
    assert not {path[1] for path in paths} & made
    assert not any("__pycache__" in path for path in paths)
    assert {path[2] for path in paths if path[1] == "groupkeeper"} >= {*FOLDERS, "py.typed"}
    beside = {"docs", "examples", "requirements", "tests", "CHANGELOG.md", "LICENSE", "Makefile"}
    assert {path[1] for path in paths if len(path) > 1} >= beside


@pytest.mark.skipif(not TOO_OLD, reason="no Python before 3.11 here")
def test_a_python_that_is_too_old_is_refused(wheel: Path, tmp_path: Path) -> None:
    command = [find(TOO_OLD[0]), "-m", "pip", "install", "--no-index", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(tmp_path), str(wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "requires a different Python" in done.stderr
    assert list(tmp_path.iterdir()) == []
