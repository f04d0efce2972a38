"""What the pages say."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.observe.metrics import Metrics, PartitionSnapshot
from groupkeeper.observe.pages import pages
from groupkeeper.turns import Slices

ACTIVE = PartitionSnapshot(0, "active")


def readyz(*partitions: PartitionSnapshot, query: str = "") -> tuple[int, dict[str, object]]:
    page = pages(Metrics(lambda: partitions))["/readyz"]
    answer = asyncio.run(page(HttpRequest("GET", "", query)))
    assert answer.content_type == "application/json"
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def test_ready_when_every_partition_is_active() -> None:
    assert readyz(ACTIVE, ACTIVE) == (
        200,
        {"ready": True, "partitions": 2, "active": 2, "enough": 2, "not_active": []},
    )


def test_not_ready_names_the_partitions_and_why() -> None:
    status, body = readyz(ACTIVE, PartitionSnapshot(7, "closed", reason="no space left"))
    assert status == 503
    assert body["not_active"] == [{"partition": 7, "state": "closed", "reason": "no space left"}]


def test_fewer_partitions_may_be_enough() -> None:
    """A number, or with a point a share, rounded up; what is missing is named all the same."""
    some = [ACTIVE] * 46 + [PartitionSnapshot(7, "closed", reason="damaged")] * 4
    needed = {"45": 45, "46": 46, "47": 47, "50": 50, "1": 1}
    needed |= {"0.9": 45, "0.92": 46, "0.921": 47, "1.0": 50, "0.001": 1}
    for enough, number in needed.items():
        status, body = readyz(*some, query=f"enough={enough}")
        missing = body.pop("not_active")
        assert status == (200 if number <= 46 else 503), enough
        counts = {"partitions": 50, "active": 46, "enough": number}
        assert body == {"ready": status == 200, **counts}, enough
        assert missing == [{"partition": 7, "state": "closed", "reason": "damaged"}] * 4


def test_what_is_no_number_and_no_share_is_400_in_a_line() -> None:
    for enough in ("", "0", "0.0", "1.1", "-1", "90%25", "half", "1e3", "nan", "\u0663"):
        status, body = readyz(ACTIVE, query=f"enough={enough}")
        assert status == 400, enough
        assert str(body["error"]).endswith("give a number of partitions, as 45, or a share, as 0.9")
    beyond = 400, {"error": "'enough' is 2: there are 1 partitions"}
    assert readyz(ACTIVE, query="enough=2") == beyond
    assert readyz(ACTIVE, query="enough=1&enough=1")[0] == 400
    assert readyz(ACTIVE, query="&".join(["a=b"] * 1000))[0] == 400


def test_other_states_and_no_partitions_are_not_ready() -> None:
    for state in ("loading", "closed"):
        assert readyz(PartitionSnapshot(0, state))[0] == 503
    assert readyz()[0] == readyz(query="enough=1")[0] == readyz(query="enough=0.1")[0] == 503


def answer_of(metrics: Metrics, path: str) -> HttpAnswer:
    return asyncio.run(pages(metrics)[path](HttpRequest("GET", "")))  # type: ignore[arg-type]


def test_the_process_is_alive_whatever_its_partitions_do() -> None:
    assert answer_of(Metrics(), "/healthz").status == 200


def test_readiness_is_known_without_counting_groups() -> None:
    metrics = Metrics(lambda: [ACTIVE])
    metrics.counted = never
    assert answer_of(metrics, "/readyz").status == 200


def never() -> Slices[Iterable[PartitionSnapshot]]:
    raise AssertionError("groups are counted")


def test_metrics_are_in_prometheus_text_format() -> None:
    metrics = Metrics()
    metrics.connections.open = 3
    answer = answer_of(metrics, "/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert isinstance(answer.body, list)
    assert b"\ngroupkeeper_connections 3.0\n" in b"".join(answer.body)


def test_the_pages_do_not_import_prometheus_client_before_a_scrape() -> None:
    code = (
        "import sys; from groupkeeper.observe.pages import pages, Metrics; pages(Metrics());"
        "print('prometheus_client' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
