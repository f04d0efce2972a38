"""`serve --dev --control` as a process, and the commands that control it."""

import json
import signal
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


def test_commands_control_the_process(capsys: Capture) -> None:
    with Process(*CONTROLLED, "--topic", "orders:2", "--as-version", "2.8") as process:
        ready = process.ready()
        assert ready.data_dir == "memory"
        at, kafka = str(process.control), format_address(ready.kafka)

        def control(*words: str) -> tuple[int, str, str]:
            code = main(["control", "--control", at, *words])
            out, err = capsys.readouterr()
            return code, out, err

        assert control("status")[1] == f"broker {kafka} is running\n"
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
        sent = 'records=[{"value": "a", "partition": 1}]'
        code, made, _ = control("call", "POST", "topics/orders/records", sent)
        assert (code, json.loads(made)["records"][0]["value"]) == (0, "a")
        code, _, line = control("wait", "billing", "--stable", "--timeout", "0.01")
        assert (code, "stable=True: it is Dead" in line) == (1, True)
        rule = ("error", "code=NOT_COORDINATOR", "--when", "api=OffsetCommit", "--when", "times=1")
        assert control("fault", "add", *rule)[1].startswith("1  0 hits  fault(error(")
        with connect(ready.kafka) as client:
            client.call(8, commit_request({("orders", 0): 7}, "g"))
        assert control("fault", "list")[1].startswith("1  1 hits")
        assert "is down: groupkeeper control restart" in control("crash")[1]
        assert control("restart")[0] == 0
        assert json.loads(control("call", "GET", "topics/orders/records")[1]) == json.loads(made)
        code, _, line = control("call", "POST", "groups/billing/expire", "member=nobody")
        assert (code, line.count("\n")) == (1, 1)
        assert b'"ready": true' in urlopen(f"http://{ready.http}/readyz", timeout=60).read()
        assert control("advance", "45")[1] == f"broker {kafka} is running\n"
        assert json.loads(control("--json", "status")[1])["is_up"] is True
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


def test_no_control_port_is_said(capsys: Capture) -> None:
    assert main(["control", "--control", "127.0.0.1:1", "status"]) == 1
    assert main(["control", "status", "--no-such-option"]) == 2
    assert "start the broker with groupkeeper serve --dev --control" in capsys.readouterr().err


def test_topics_are_seeded_without_control_too() -> None:
    with Process("--dev", "--memory", "--http", "off", "--topic", "orders:2") as process:
        with connect(process.ready().kafka) as client:
            answer = client.call(8, commit_request({("orders", 1): 7}, "g"))
        assert answer.topics[0].partitions[0].error_code == 0
