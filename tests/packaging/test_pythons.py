"""The installed wheel on every Python of this machine that it is for."""

from pathlib import Path

import pytest

import groupkeeper
from tests.packaging.conftest import Made
from tests.packaging.interpreters import SUPPORTED

pytestmark = [
    pytest.mark.xdist_group("packaging"),
    pytest.mark.parametrize("minor", SUPPORTED, ids=lambda minor: f"3.{minor}"),
]


def test_the_command_tells_its_version(made: Made, minor: int, tmp_path: Path) -> None:
    environment = made("wheel", minor)
    told = environment.run(environment.script, "--version", cwd=tmp_path)
    assert told.split()[-1] == groupkeeper.__version__


def test_a_server_becomes_ready_answers_and_stops(made: Made, minor: int, tmp_path: Path) -> None:
    environment = made("wheel", minor)
    assert environment.serves(environment.script, cwd=tmp_path) == ""
