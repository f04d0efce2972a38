"""Retention in a server: when it acts, what is logged and counted, and the first start after an
upgrade.
"""

from typing import Any

from groupkeeper.observe.exposition import Exposition
from tests.support.requests import produce_request
from tests.support.served import Serve, Served
from tests.support.slices import whole

INTERVAL_S = 300.0


def produce(served: Served) -> None:
    request = produce_request("orders", 0, b"value", time=served.disk.wall_ms())
    answer = served.client().call(9, request)
    assert not answer.responses[0].partition_responses[0].error_code


def span(served: Served) -> tuple[int, int]:
    return served.client().span("orders")


def events(lines: Any, event: str) -> list[dict[str, Any]]:
    return [line for line in lines() if line["event"] == event]


def test_a_pass_comes_an_interval_after_the_start_and_after_each_other(
    serve: Serve, lines: Any
) -> None:
    served = serve("log.retention.ms=1000")
    began = served.loop.time()
    produce(served)
    served.advance(INTERVAL_S - 0.9)
    assert span(served) == (0, 1)
    produce(served)
    served.advance(INTERVAL_S + 5 - (served.loop.time() - began))
    assert span(served) == (0, 2), "the segment has a young record"
    served.advance(INTERVAL_S)
    assert span(served) == (2, 2)
    [line] = events(lines, "topics: segments deleted")
    assert {"partition": "orders-0", "segments": 1, "start_offset": 2}.items() <= line.items()
    assert line["bytes"] > 100
    assert line["level"] == "info"
    served.advance(INTERVAL_S)
    assert len(events(lines, "topics: segments deleted")) == 1
    page = b"".join(whole(Exposition(served.server.metrics).page())).decode().splitlines()
    assert "groupkeeper_topic_segments_deleted_total 1.0" in page


def test_the_interval_is_a_setting(serve: Serve) -> None:
    served = serve("log.retention.ms=1", "log.retention.check.interval.ms=10000")
    produce(served)
    served.advance(9)
    assert span(served) == (0, 1)
    served.advance(2)
    assert span(served) == (1, 1)


def test_a_server_that_stops_ends_its_passes(serve: Serve) -> None:
    served = serve("log.retention.ms=1", "log.retention.check.interval.ms=1")
    for _ in range(20):
        produce(served)
        served.advance(0.01)
    served.stop()
    served.start()
    served.settled()
    assert span(served)[1] == 20
