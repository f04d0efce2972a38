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


IN_A_TEST = """
from groupkeeper.testing import Broker
with Broker(topics={"orders": 1}) as broker:
    broker.produce("orders", "first")
    print(broker.records("orders")[0].value.decode())
"""


def test_a_test_broker_runs(made: Made, minor: int, tmp_path: Path) -> None:
    environment = made("wheel", minor)
    assert environment.run(environment.python, "-c", IN_A_TEST, cwd=tmp_path) == "first\n"


def test_a_server_becomes_ready_answers_and_stops(made: Made, minor: int, tmp_path: Path) -> None:
    environment = made("wheel", minor)
    assert environment.serves(environment.script, cwd=tmp_path) == ""
