"""What a test with a broker imports: no client library, and none of the HTTP port's."""

import subprocess
import sys

import pytest

BLOCKED = ("aiokafka", "h11", "rich", "click", "prometheus_client", "javaproperties")
BROKER = """
from groupkeeper.testing import Broker, effects
with Broker(topics={"orders": 1}, brokers=2) as broker:
    broker.produce("orders", "first")
    broker.commit("billing", {("orders", 0): 1})
    broker.fault(effects.error("REBALANCE_IN_PROGRESS"), api="Heartbeat", may_miss=True)
    broker.crash()
    broker.restart()
    assert broker.committed("billing") == {("orders", 0): 1}
    broker.group("billing").wait_until(state="Empty")
    broker.advance(60)
    assert broker.transcript()
"""
SUITE = """
import pathlib, pytest, sys, tempfile
folder = tempfile.mkdtemp()
place = pathlib.Path(folder, "test_it.py")
place.write_text("def test_it(kafka_broker): assert kafka_broker.bootstrap_servers")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", folder, str(place)]))
"""


@pytest.mark.parametrize("program", [BROKER, SUITE], ids=["broker", "plugin"])
def test_a_broker_runs_where_they_are_missing(program: str) -> None:
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({BLOCKED}))\n"
    done = subprocess.run(
        [sys.executable, "-c", blocked + program],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
