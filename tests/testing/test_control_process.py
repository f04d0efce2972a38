"""`serve --dev --control` as a process, controlled over HTTP."""

import json
import signal
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from groupkeeper.cli import main
from groupkeeper.settings.options import format_address
from tests.support.process import Process
from tests.support.requests import commit_request
from tests.support.wire import connect

Capture = pytest.CaptureFixture[str]

CONTROLLED = ("--dev", "--control", "127.0.0.1:0", "--http", "127.0.0.1:0")


# Any: JSON.
def asked(at: str, path: str, body: Any = None) -> Any:
    """The answer of the control port; with a body, to a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://{at}/control/v1/{path}", data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def refusal(at: str, path: str, body: Any = None) -> tuple[int, str]:
    with pytest.raises(HTTPError) as refused:
        asked(at, path, body)
    return refused.value.code, json.load(refused.value)["error"]


def test_requests_control_the_process() -> None:
    with Process(*CONTROLLED, "--topic", "orders:2", "--as-version", "2.8") as process:
        ready = process.ready()
        assert ready.data_dir == "memory"
        at, kafka = str(process.control), format_address(ready.kafka)
        broker = asked(at, "broker")
        assert (broker["bootstrap_servers"], broker["is_up"]) == (kafka, True)
        with pytest.raises(HTTPError) as refused:
            urlopen(f"http://{at}/", timeout=60)
        assert (
            "all paths of the control begin with /control/v1/" in json.load(refused.value)["error"]
        )
        large = Request(f"http://{at}/control/v1/topics", bytes(18_000_000), method="POST")
        with pytest.raises(HTTPError) as refused:
            urlopen(large, timeout=60)
        assert refused.value.code == 413
        assert "send less at a time" in json.load(refused.value)["error"]
        made = asked(at, "topics/orders/records", {"records": [{"value": "a", "partition": 1}]})
        assert made["records"][0]["value"] == "a"
        code, line = refusal(at, "groups/billing/wait", {"stable": True, "timeout_ms": 10})
        assert (code, "stable=True: it is Dead" in line) == (408, True)
        effect = {"name": "error", "code": "NOT_COORDINATOR"}
        rule = asked(at, "faults", {"effect": effect, "api": "OffsetCommit", "times": 1})
        assert (rule["id"], rule["hits"]) == (1, 0)
        with connect(ready.kafka) as client:
            client.call(8, commit_request({("orders", 0): 7}, "g"))
        assert asked(at, "faults")["faults"][0]["hits"] == 1
        assert asked(at, "broker/crash", {})["is_up"] is False
        assert asked(at, "broker/restart", {})["is_up"] is True
        assert asked(at, "topics/orders/records") == made
        assert refusal(at, "groups/billing/expire", {"member": "nobody"})[0] == 400
        assert b'"ready": true' in urlopen(f"http://{ready.http}/readyz", timeout=60).read()
        assert asked(at, "time/advance", {"seconds": 45})["is_up"] is True
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_changes_over_http_do_not_open_it() -> None:
    given = ("--dev", "--memory", "--http", "127.0.0.1:0", "--set", "http.api.write=true")
    with Process(*given) as process:
        ready = process.ready()
        assert process.control is None
        request = Request(f"http://{ready.http}/control/v1/broker/crash", b"{}", method="POST")
        with pytest.raises(HTTPError) as refused:
            urlopen(request, timeout=60)
        assert refused.value.code in (404, 405)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--control",), "--control is for tests: it requires --dev"),
        (("--dev", "--control", "0.0.0.0:9645"), "give a port of 127.0.0.1 or ::1 or localhost"),
        (("--dev", "--brokers", "3"), "--brokers is for tests: it requires --dev --control"),
        (("--dev", "--as-version", "2.8"), "--as-version is for tests"),
        (("--dev", "--topic", "orders:x"), "'orders:x' is not NAME:PARTITIONS, such as orders:6"),
        (("--dev", "--topic", "a b:1"), "is not NAME:PARTITIONS"),
        (
            ("--dev", "--control", "--brokers", "2", "--advertise", "localhost:1"),
            "leave out --node-id, --advertise",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    capsys: Capture, arguments: tuple[str, ...], line: str
) -> None:
    assert main(["serve", *arguments]) == 2
    told = capsys.readouterr().err
    assert line in told


def test_topics_are_seeded_without_control_too() -> None:
    with Process("--dev", "--memory", "--http", "off", "--topic", "orders:2") as process:
        with connect(process.ready().kafka) as client:
            answer = client.call(8, commit_request({("orders", 1): 7}, "g"))
        assert answer.topics[0].partitions[0].error_code == 0
