"""The HTTP control of a test broker: its answers, its document, and what it refuses."""

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator

from groupkeeper.observe.http_exchange import ANSWERS, HttpRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.settings.options import MEMORY, Listen, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.testing import effects
from groupkeeper.testing.control.http import PREFIX, ROUTES, Control
from groupkeeper.testing.control.parts import WAITS, ServedBroker
from groupkeeper.testing.control.process import ServedBench
from groupkeeper.testing.control.schemas import DOCUMENTED
from groupkeeper.web.openapi import document
from tests.support.requests import commit_request, join_request, sync_request
from tests.support.web import closed
from tests.support.wire import Client, Gone, connect

T = TypeVar("T")

DOCUMENT = document(ROUTES, DOCUMENTED)
HEADERS = {"content-type": "application/json", "host": "127.0.0.1:9645"}


class Controlled:
    """A broker of two nodes and its control; each answer is checked against the document."""

    def __init__(self) -> None:
        settings, _ = load(None, {}, ("offsets.topic.num.partitions=2",), dev=True)
        options = ServeOptions(
            MEMORY,
            (Listen(bind=("127.0.0.1", 0)),),
            http=None,
            memory=True,
            settings=settings,
            topics={"orders": 2},
        )
        self.bench = ServedBench(options, brokers=2, as_version=None)
        self.bench.start()
        self._loop = asyncio.new_event_loop()
        self.control = Control(ServedBroker(self.bench))

    def close(self) -> None:
        self._loop.run_until_complete(self.control.close())
        self._loop.close()
        self.bench.stop()

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> tuple[int, Any]:
        """Status and body."""
        return self._loop.run_until_complete(self.asked(method, path, headers, **body))

    async def asked(
        self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> tuple[int, Any]:
        """As `ask`, on the loop of the control."""
        where, _, query = path.partition("?")
        data = json.dumps(body).encode() if method == "POST" else b""
        request = HttpRequest(method, where, query, HEADERS | (headers or {}), "127.0.0.1", data)
        answer = await self.control.answer(request)
        assert isinstance(answer.body, bytes)
        found = json.loads(answer.body)
        _check(method, where, answer.status, found)
        return answer.status, found

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def get(self, path: str) -> Any:
        return self._done("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        return self._done("POST", path, **body)

    def _done(self, method: str, path: str, **body: Any) -> Any:
        status, found = self.ask(method, path, **body)
        assert status == 200, found
        return found

    def error(self, method: str, path: str, **body: Any) -> tuple[int, str]:
        status, found = self.ask(method, path, **body)
        assert status != 200, found
        return status, found["error"]

    def client(self, node: int = 0) -> Client:
        host, port = self.bench.bootstrap_servers.split(",")[node].split(":")
        return connect((host, int(port)), timeout=60)


def _check(method: str, path: str, status: int, body: Any) -> None:
    """The document has the answer, with all of its fields."""
    for template, operations in DOCUMENT["paths"].items():
        own = template.removeprefix(PREFIX).split("/")
        theirs = path.split("/")
        same = len(own) == len(theirs) and all(
            mine == each or mine.startswith("{") for mine, each in zip(own, theirs, strict=True)
        )
        operation = operations.get(method.lower()) if same else None
        if operation is not None:
            assert str(status) in operation["responses"], f"{status} is not told"
            content = operation["responses"][str(status)]["content"]
            schema = content["application/json"]["schema"]
            whole = {"components": closed(DOCUMENT["components"])} | closed(schema)
            Draft202012Validator(whole).validate(body)
            return
    assert status in (404, 405), "a path that is not in the document"


@pytest.fixture
def of() -> Iterator[Controlled]:
    controlled = Controlled()
    yield controlled
    controlled.close()


def _join(of: Controlled, group: str = "billing") -> str:
    """A member, assigned nothing."""
    broker = of.bench.cluster
    with of.client(of.bench.running.call(lambda: broker.coordinator(group))) as client:
        member_id = str(client.call(9, join_request(group)).member_id)
        joined = client.call(9, join_request(group, member_id))
        client.call(5, sync_request(member_id, joined.generation_id, group_id=group))
    return member_id


def test_the_broker_lives_and_dies(of: Controlled) -> None:
    before = of.get("broker")
    assert before["is_up"] is True
    assert of.post("broker/crash")["is_up"] is False
    status, line = of.error("POST", "broker/crash")
    assert (status, "restart" in line) == (409, True)
    after = of.post("broker/restart")
    assert after["bootstrap_servers"] == before["bootstrap_servers"]
    of.post("topics/orders/records", records=[{"value": "x"}])
    assert len(of.get("topics/orders/records")["records"]) == 1
    of.post("broker/reset")
    assert of.get("topics/orders/records")["records"] == []


def test_time_moves_when_told(of: Controlled) -> None:
    before = of.post("time/freeze")["time_ms"]
    after = of.post("time/advance", seconds=3600)
    assert (after["time_ms"] - before, after["is_frozen"]) == (3_600_000, True)
    assert of.post("time/resume")["is_frozen"] is False


def test_records_come_back_as_they_were_sent(of: Controlled) -> None:
    headers = [{"key": "trace", "value": "1"}]
    sent = [
        {"value": "a", "key": "k", "partition": 1, "timestamp_ms": 5, "headers": headers},
        {"value_base64": "/w==", "partition": 1},
        {"partition": 1},
    ]
    of.post("topics/orders/records", records=sent)
    found = of.get("topics/orders/records?partition=1")["records"]
    assert [each["value"] for each in found] == ["a", None, None]
    assert [each["value_base64"] for each in found] == [None, "/w==", None]
    assert (found[0]["key"], found[0]["timestamp_ms"], found[0]["offset"]) == ("k", 5, 0)
    assert found[0]["headers"] == [{"key": "trace", "value": "1", "value_base64": None}]
    for row, line in (
        ({"value": "a", "value_base64": "/w=="}, "exclude each other"),
        ({"value_base64": "?"}, "not base64"),
    ):
        assert line in of.error("POST", "topics/orders/records", records=[row])[1]


def test_topics_are_created(of: Controlled) -> None:
    of.post("topics", topic="new", partitions=3, configs={"cleanup.policy": "compact"})
    assert of.get("topics")["topics"] == [
        {"topic": "new", "partitions": 3},
        {"topic": "orders", "partitions": 2},
    ]
    assert of.error("POST", "topics", topic="new")[0] == 400


def test_offsets_are_seeded_and_told(of: Controlled) -> None:
    rows = [{"topic": "orders", "partition": 0, "offset": 7}]
    assert of.post("groups/billing/committed", committed=rows)["committed"] == rows
    assert of.get("groups/billing/committed")["committed"] == rows
    assert of.get("groups")["groups"] == ["billing"]


def test_a_group_is_shown_and_waited_for(of: Controlled) -> None:
    member_id = _join(of)
    found = of.post("groups/billing/wait", stable=True, members=1)
    assert [each["member_id"] for each in found["members"]] == [member_id]
    assert found["rounds"][0]["cause"] == "member_joined"
    assert of.get("groups/billing")["state"] == "Stable"
    assert "generation 1" in of.get("groups/billing/timeline")["text"]
    status, line = of.error("POST", "groups/billing/wait", members=2, timeout_ms=1)
    assert (status, "members=2" in line) == (408, True)
    of.post("time/advance", seconds=60, silent=[member_id])
    assert of.post("groups/billing/wait", state="Empty")["members"] == []


def test_many_waits_leave_room_for_what_ends_them(of: Controlled) -> None:
    offset = [{"topic": "orders", "partition": 0, "offset": 5}]

    async def many() -> list[tuple[int, Any]]:
        wait = {"committed": offset, "timeout_ms": 60_000}
        waits = [
            asyncio.ensure_future(of.asked("POST", "groups/billing/wait", **wait))
            for _ in range(WAITS + 20)
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert (await of.asked("POST", "groups/billing/committed", committed=offset))[0] == 200
        return await asyncio.gather(*waits)

    assert WAITS < ANSWERS - 10
    answers = of.run(many())
    assert Counter(status for status, _ in answers) == {200: WAITS, 503: 20}
    [line] = {body["error"] for status, body in answers if status == 503}
    assert line == f"{WAITS} waits are in progress: retry when one has ended"
    of.post("groups/billing/wait", committed=offset)


def test_a_group_that_does_not_exist_is_told_so(of: Controlled) -> None:
    assert of.get(f"groups/{quote('a/b', safe='')}")["exists"] is False


def test_faults_happen_and_count(of: Controlled) -> None:
    rule = of.post(
        "faults",
        effect={"name": "error", "code": "NOT_COORDINATOR"},
        api="OffsetCommit",
        versions=[0, 8],
        times=1,
    )
    with of.client(1) as client:
        client.call(8, commit_request({("orders", 0): 7}, "g"))
    assert of.get("faults")["faults"] == [_without(rule, hits=1)]
    status, removed = of.ask("DELETE", f"faults/{rule['id']}")
    assert (status, removed["hits"]) == (200, 1)
    assert of.get("faults")["faults"] == []
    assert of.error("DELETE", f"faults/{rule['id']}")[0] == 404


def _without(rule: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {name: each for name, each in rule.items() if name != "cluster"} | changed


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"effect": {"name": "eror"}}, "'effect.name' is 'eror': give one of close"),
        ({"effect": {"name": "error"}}, "missing a required argument: 'code'"),
        ({"effect": {"name": "error", "code": "NOT_CORDINATOR"}}, "did you mean 'NOT_COORDINATOR'"),
        ({"effect": {"name": "drop"}, "api": "OffsetComit"}, "did you mean 'OffsetCommit'"),
        ({"effect": {"name": "drop"}, "group_id": "g"}, "unknown field 'group_id': give effect, "),
        ({}, "'effect' is missing"),
        ({"effect": {"name": "drop"}, "times": 0}, "'times' is 0: give 1 or more"),
        ({"effect": {"name": "drop"}, "may_miss": 1}, "'may_miss' is not of type boolean"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_line(of: Controlled, body: Any, line: str) -> None:
    status, told = of.error("POST", "faults", **body)
    assert status == 400
    assert line in told
    assert "\n" not in told


def test_nodes_stop_and_start_and_leaders_move(of: Controlled) -> None:
    assert [each["is_up"] for each in of.post("nodes/1/stop")["nodes"]] == [True, False]
    assert of.get("topics/orders/partitions/1/leader")["leader"] == 0
    assert "the last running" in of.error("POST", "nodes/0/stop")[1]
    of.post("nodes/1/start")
    assert of.post("topics/orders/partitions/0/leader", to=1)["leader"] == 1
    assert of.post("groups/billing/coordinator", to=1)["coordinator"] == 1
    assert of.get("groups/billing/coordinator")["coordinator"] == 1
    assert of.error("POST", "nodes/x/stop") == (400, "node 'x' is not a number")
    assert "no node 2" in of.error("POST", "nodes/2/stop")[1]


def test_members_are_expired_fenced_and_sent_to_rebalance(of: Controlled) -> None:
    member_id = _join(of)
    assert of.post("groups/billing/rebalance", reason="why not")["state"] == "PreparingRebalance"
    assert of.get("groups/billing")["rounds"][-1]["reason"] == "why not"
    assert of.error("POST", "groups/billing/fence", instance="none")[0] == 400
    of.post("groups/billing/expire", member=member_id)
    assert of.get("groups/billing")["members"] == []


def test_the_conversation_is_told(of: Controlled) -> None:
    _join(of)
    assert "JoinGroup" in of.get("transcript")["text"]


def test_the_log_is_told(of: Controlled) -> None:
    assert any("data is in memory" in line for line in of.get("logs")["lines"])


@pytest.mark.parametrize(
    ("headers", "status", "line"),
    [
        ({"host": "attacker.example"}, 403, "Host header"),
        ({"origin": "http://attacker.example"}, 403, "Origin"),
        ({"content-type": "text/plain"}, 415, "Content-Type: application/json"),
    ],
)
def test_pages_of_a_browser_are_refused(
    of: Controlled, headers: dict[str, str], status: int, line: str
) -> None:
    found, body = of.ask("POST", "broker/crash", headers)
    assert (found, line in body["error"]) == (status, True)
    assert of.get("broker")["is_up"] is True


def test_unknown_paths_and_methods_are_told(of: Controlled) -> None:
    assert of.error("GET", "brokr") == (
        404,
        f"no such path: all paths are listed in {PREFIX}openapi.json",
    )
    assert of.error("GET", "broker/crash")[0] == 405


def test_the_document_is_served(of: Controlled) -> None:
    request = HttpRequest("GET", "openapi.json", headers=HEADERS)
    answer = asyncio.run(of.control.answer(request))
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body) == DOCUMENT


def test_the_http_port_comes_back_after_a_fault_has_crashed_the_broker() -> None:
    options = ServeOptions(
        MEMORY, (Listen(bind=("127.0.0.1", 0)),), http=("127.0.0.1", 0), memory=True
    )
    bench = ServedBench(options, brokers=1, as_version=None)
    bench.start()
    broker = ServedBroker(bench)
    try:
        host, port = bench.http_at.split(":")
        asked = HTTPConnection(host, int(port), timeout=60)
        asked.request("GET", "/healthz")
        assert asked.getresponse().read()
        rule = broker.fault(effects.crash_before_durable(), api="ListGroups")
        kafka_host, kafka_port = broker.bootstrap_servers.split(":")
        address = kafka_host, int(kafka_port)
        with connect(address, timeout=60) as client, pytest.raises((Gone, ConnectionError)):
            client.call(4, ListGroupsRequest())
        rule.remove()
        broker.restart()
        asked.close()
        asked.request("GET", "/healthz")
        assert asked.getresponse().status == 200
        asked.close()
    finally:
        bench.stop()


def test_data_on_a_disk_is_not_reset(tmp_path: Path) -> None:
    options = ServeOptions(tmp_path, (Listen(bind=("127.0.0.1", 0)),), http=None)
    bench = ServedBench(options, brokers=1, as_version=None)
    bench.start()
    broker = ServedBroker(bench)
    try:
        with pytest.raises(RuntimeError, match="data"):
            broker.reset()
        broker.restart()
    finally:
        bench.stop()


def test_the_page_has_every_route() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing-control.md").read_text(encoding="utf-8")
    assert [route.path for route in ROUTES if f"`{route.path}`" not in page] == []
