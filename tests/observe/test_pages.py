"""What the pages say."""

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

from groupkeeper.observe.metrics import Metrics, PartitionSnapshot
from groupkeeper.observe.pages import pages
from groupkeeper.turns import Slices

ACTIVE = PartitionSnapshot(0, "active")


def readyz(*partitions: PartitionSnapshot) -> tuple[int, dict[str, object]]:
    status, content_type, body = pages(Metrics(lambda: partitions))["/readyz"]()
    assert content_type == "application/json"
    return status, json.loads(body)


def test_ready_when_every_partition_is_active() -> None:
    assert readyz(ACTIVE, ACTIVE) == (200, {"ready": True, "partitions": 2, "not_active": []})


def test_not_ready_names_the_partitions_and_why() -> None:
    status, body = readyz(ACTIVE, PartitionSnapshot(7, "closed", reason="no space left"))
    assert status == 503
    assert body["not_active"] == [{"partition": 7, "state": "closed", "reason": "no space left"}]


@pytest.mark.parametrize("state", ["loading", "closed"])
def test_no_other_state_is_ready(state: str) -> None:
    assert readyz(PartitionSnapshot(0, state))[0] == 503


def test_a_node_without_partitions_is_not_ready() -> None:
    assert readyz()[0] == 503


def test_the_process_is_alive_whatever_its_partitions_do() -> None:
    assert pages(Metrics())["/healthz"]()[0] == 200


def test_readiness_is_known_without_counting_groups() -> None:
    metrics = Metrics(lambda: [ACTIVE])
    metrics.counted = never
    assert pages(metrics)["/readyz"]()[0] == 200


def never() -> Slices[Iterable[PartitionSnapshot]]:
    raise AssertionError("groups are counted")


async def test_metrics_are_in_prometheus_text_format() -> None:
    metrics = Metrics()
    page = pages(metrics)["/metrics"]
    assert (await page())[1].startswith("text/plain; version=0.0.4")
    metrics.connections.open = 3
    assert b"\ngroupkeeper_connections 3.0\n" in b"".join((await page())[2])


def test_the_pages_do_not_import_prometheus_client_before_a_scrape() -> None:
    code = (
        "import sys; from groupkeeper.observe.pages import pages, Metrics; pages(Metrics());"
        "print('prometheus_client' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
