import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from groupkeeper.analytics.session import builder, find_java, run_this_python
from tests.support.process import ROOT

LOG = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"
QUICK = (
    "--master local[1] --driver-java-options=-XX:TieredStopAtLevel=1 "
    "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 pyspark-shell"
)
TIMEOUT_S = 300
"""The workers may have to compile."""


def test_a_session_of_its_own_listens_on_loopback_only(monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    options = builder("job")._options
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.master"].startswith("local[")


def test_what_spark_submit_was_given_is_left_alone(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert builder("job")._options == {"spark.app.name": "job"}


class Conf:
    def __init__(self, **known):
        self._known = {name.replace("_", "."): value for name, value in known.items()}

    def get(self, key):
        return self._known.get(key)


def session(master="local[2]", python="python3", **conf):
    """As much of a session as is asked."""
    context = SimpleNamespace(master=master, pythonExec=python, getConf=lambda: Conf(**conf))
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.usefixtures("unset")
def test_local_workers_run_this_python():
    found = session()
    run_this_python(found)
    assert found.sparkContext.pythonExec == sys.executable


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(
    "found",
    [
        session(master="spark://host:7077"),
        session(master="local-cluster[2,1,1024]"),
        session(python="/opt/python"),
        session(spark_pyspark_python="/opt/python"),
    ],
)
def test_another_python_that_is_chosen_stays(found):
    before = found.sparkContext.pythonExec
    run_this_python(found)
    assert found.sparkContext.pythonExec == before


def test_the_variable_of_spark_goes_first(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    found = session()
    run_this_python(found)
    assert found.sparkContext.pythonExec == "python3"


def test_a_session_without_a_context_is_left_alone():
    run_this_python(SimpleNamespace())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 10)
def test_the_code_of_the_page_runs_in_an_environment_that_is_not_activated(tmp_path):
    """`python3` of the PATH is another one, without the libraries."""
    page = (ROOT / "docs" / "analytics.md").read_text()
    [code] = [
        each
        for each in re.findall(r"```python\n(.*?)```", page, re.S)
        if "import SparkSession" in each
    ]
    begin, _, _ = code.partition("events = ")
    program = tmp_path / "program.py"
    program.write_text(begin.replace("/path/to/data", str(LOG)))
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another Python >&2\nexit 3\n")
    other.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if "PYSPARK" not in name}
    environment |= {
        "JAVA_HOME": str(find_java()),
        "PATH": os.pathsep.join((str(other.parent), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_SUBMIT_ARGS": QUICK,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        cwd=tmp_path,
        timeout=TIMEOUT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "|billing|" in done.stdout.replace(" ", "")
