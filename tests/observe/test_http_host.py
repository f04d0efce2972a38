"""Which requests of the HTTP port are answered, by the name that they give this server."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import click
import pytest

from groupkeeper.cli.observe import observe
from groupkeeper.cli.serve import serve
from groupkeeper.observe.http_exchange import HEALTH, HttpAnswer, HttpRequest, Page
from groupkeeper.observe.http_host import is_own, own_names, strange
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.settings.options import Address, Listen, ServeOptions
from groupkeeper.settings.table import Settings

Lines = Callable[[], list[dict[str, Any]]]
NAMES = own_names(
    "10.0.0.7,Kafka.Example.org,groupkeeper.prod.svc, board.example ,a.b.svc.cluster.local,".split(
        ","
    )
)
EVIL = "Host: evil.com\r\n"


OWN = """localhost LOCALHOST:9644 127.0.0.1:9644 [::1]:9644 192.168.0.1 KAFKA a.b.svc:9644
    kafka.example.org:9644 groupkeeper groupkeeper.prod.svc board.example localhost.:9644 localhost:
    gk.localhost kafka.example.org."""
OTHERS = """evil.com evil.com:9644 localhost.evil.com kafka.example.org.evil.com 10 :1 kafka.example
    groupkeeper.prod a.b notlocalhost 127.0.0.1.evil.com evil.com:localhost"""


def test_addresses_localhost_and_the_servers_names_are_its_own() -> None:
    assert [each for each in OWN.split() if not is_own(each, NAMES)] == []


def test_other_names_may_be_rebound() -> None:
    for host in ("", *OTHERS.split()):
        assert not is_own(host, NAMES)
        line = strange("GET", {"host": host}, NAMES)
        assert line is not None and line.startswith(f"the Host header is '{host}'")
        assert "--set http.hosts=" in line


@pytest.mark.parametrize("command", [serve, observe])
def test_a_refusal_names_options_of_each_command_with_such_a_port(command: click.Command) -> None:
    line = strange("GET", {"host": "evil.com"}, NAMES)
    options = {each for option in command.params for each in option.opts}
    assert {*re.findall(r"--[a-z-]+", line or "")} <= options


def test_a_page_of_another_origin_may_not_read() -> None:
    assert (
        strange("GET", {"host": "localhost:9644", "origin": "http://localhost:9644"}, NAMES) is None
    )
    for origin in ("http://evil.com", "null", "", "http://localhost:8080"):
        line = strange("GET", {"host": "localhost:9644", "origin": origin}, NAMES)
        assert line is not None and line.startswith(f"the Origin header is '{origin}'")


def test_a_port_that_http_has_by_default_may_be_left_out() -> None:
    for host, origin in (("localhost:80", "http://localhost"), ("gk", "http://gk:80")):
        assert strange("GET", {"host": host, "origin": origin}, own_names(["gk"])) is None


def test_a_page_of_this_port_may_read_through_a_proxy() -> None:
    """The browser vouches for the page; a site that was rebound is refused by its name."""
    page = {"origin": "https://board.example.org", "sec-fetch-site": "same-origin"}
    assert strange("GET", page | {"host": "127.0.0.1:9644"}, NAMES) is None
    assert strange("GET", page | {"host": "evil.com"}, NAMES) is not None
    assert (
        strange("GET", page | {"host": "127.0.0.1", "sec-fetch-site": "cross-site"}, NAMES)
        is not None
    )


def test_a_program_that_names_no_host_may_read() -> None:
    assert strange("GET", {}, NAMES) is None
    assert strange("GET", {"origin": "http://evil.com"}, NAMES) is not None


def test_names_are_those_of_the_options_and_of_the_setting() -> None:
    options = ServeOptions(Path())
    options.listeners = (Listen(advertised=("kafka.example.org", 9092)),)
    options.settings = Settings(http_hosts="a.example, b.example")
    found = own_names(options.hosts)
    assert {"127.0.0.1", "kafka.example.org", "kafka", "a.example", "b.example"} <= found


def test_what_another_origin_sends_is_refused() -> None:
    local = {"host": "localhost"}
    for header in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.com"}):
        assert strange("POST", local | header, NAMES) is not None
    for header in ({"sec-fetch-site": "none"}, {"origin": "http://localhost"}, {}):
        assert strange("POST", local | header, NAMES) is None
    assert strange("GET", local | {"sec-fetch-site": "cross-site"}, NAMES) is None, "a link"


# -- the port --------------------------------------------------------------------------------------


async def _api(asked: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, json.dumps({"path": asked.path}).encode())


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    fine = Page(lambda _: HttpAnswer(200, b"fine"))
    pages = dict.fromkeys([*HEALTH, "/metrics", "/status"], fine)
    server = HttpServer({**pages, "/api/": _api, "/": _api}, names=NAMES)
    yield await server.start(("127.0.0.1", 0))
    await server.close()


async def ask(address: Address, path: str, headers: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n".encode())
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body
    finally:
        writer.close()


async def test_nothing_is_read_by_a_rebound_name(address: Address) -> None:
    for path in ("/api/groups", "/api/follow", "/", "/page/group.js", "/status"):
        status, body = await ask(address, path, EVIL)
        assert (status, b"path" in body, b"fine" in body) == (403, False, False)
        assert json.loads(body)["error"].startswith("the Host header is 'evil.com': ask by")
        assert (await ask(address, path, "Host: kafka.example.org:9644\r\n"))[0] == 200
    for path in ("/healthz", "/readyz", "/readyz?enough=1", "/metrics"):
        assert (await ask(address, path, EVIL))[0] == 200, "probes and scrapers may use any name"


async def test_one_line_tells_who_was_refused(address: Address, lines: Lines) -> None:
    for _ in range(20):
        await ask(address, "/api/groups", EVIL)
    [line] = [each for each in lines() if each["event"] == "page refused"]
    assert (line["path"], line["client"], line["times"]) == ("/api/groups", "127.0.0.1", 1)
