"""The page without a browser: how its files are served, what they weigh, and what they ask for."""

import http.client
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.web.page_files import FOLDER, INDEX, TYPES, PageFiles
from tests.support.process import Process, Ready
from tests.support.web import Web
from tests.web.drawn import DOCUMENT, NEEDS_NODE, drawn, found
from tests.web.drawn import text_of as words_of

MOST_BYTES = 150 * 1024
FILES = sorted(each.name for each in FOLDER.iterdir())
MODULES = [each for each in FILES if each.endswith(".js")]


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def ask(path: str, method: str = "GET") -> HttpAnswer:
    return PageFiles().answer(HttpRequest(method, path))


# -- how files are served --------------------------------------------------------------------------


def test_files_are_served_as_they_are_with_their_types() -> None:
    for name in FILES:
        answer = ask(f"page/{name}")
        assert (answer.status, answer.body) == (200, (FOLDER / name).read_bytes())
        assert answer.content_type == TYPES[Path(name).suffix]
    assert ask("").body == ask(f"page/{INDEX}").body
    for path in ("nothing", "page", "page/", "page/page/app.js", "page/../page_files.py", INDEX):
        answer = ask(path)
        assert (answer.status, answer.body) == (404, b'{"error": "Not Found"}\n'), path
    answer = ask("", "POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_tag_is_that_of_the_contents() -> None:
    tags = {ask(f"page/{name}").headers["ETag"] for name in FILES}
    assert len(tags) == len(FILES)
    assert ask("").headers["ETag"] == ask(f"page/{INDEX}").headers["ETag"]


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    with Process("--dev", "--memory", "--http", "127.0.0.1:0") as process:
        yield process.ready()


def fetch(
    ready: Ready, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(ready.http, timeout=30)
    try:
        connection.request(
            method, path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
def test_a_browser_may_load_nothing_from_elsewhere(ready: Ready, path: str) -> None:
    answer, body = fetch(ready, path)
    assert (answer.status, len(body)) == (200, int(answer.headers["Content-Length"]))
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert not any("unsafe" in each for each in policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_what_a_browser_has_is_not_sent_again(ready: Ready) -> None:
    answer, _ = fetch(ready, "/page/app.js")
    assert answer.headers["Cache-Control"] == "no-cache"
    again, body = fetch(ready, "/page/app.js", If_None_Match=answer.headers["ETag"])
    assert (again.status, body) == (304, b"")
    other, _ = fetch(ready, "/page/page.css", If_None_Match=answer.headers["ETag"])
    assert other.status == 200


def test_paths_of_the_port_that_do_not_exist(ready: Ready) -> None:
    answer, body = fetch(ready, "/nothing")
    assert (answer.status, body) == (404, b'{"error": "Not Found"}\n')
    assert fetch(ready, "/page/app.js", "HEAD")[1] == b""


def test_the_page_is_loaded_with_its_first_request() -> None:
    code = "import sys, groupkeeper.server.main; print('groupkeeper.web.page_files' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


# -- what is in the files --------------------------------------------------------------------------


def test_weight() -> None:
    weight = sum(len((FOLDER / name).read_bytes()) for name in FILES)
    print(f"the page weighs {weight} bytes in {len(FILES)} files")
    assert weight < MOST_BYTES


def test_everything_that_is_named_is_there() -> None:
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', text_of(INDEX)))
    for name in MODULES:
        named |= set(re.findall(r' from "\./([^"]+)"', text_of(name)))
    assert named | {INDEX} == set(FILES)


def test_the_first_page_links_the_others(ready: Ready) -> None:
    links = re.findall(r'href="([^"#]+)"', text_of(INDEX))
    assert {"metrics", "readyz", "healthz", "api/v1/openapi.json"} <= set(links)
    assert {fetch(ready, f"/{each}")[0].status for each in links} == {200}


def test_what_is_outside_of_the_content_has_a_name_for_screen_readers() -> None:
    """axe-core's rule `region`: all text is in a landmark, or an alert."""
    places = re.findall(r"^<div ([^>]*)>", text_of(INDEX), re.MULTILINE)
    assert len(places) >= 3
    for each in places:
        assert 'role="alert"' in each or re.search(r'role="region" aria-label="\w', each), each


def test_nothing_is_inline_and_no_text_becomes_html() -> None:
    for name in FILES:
        text = text_of(name)
        wrong = r"(inner|outer)HTML|AdjacentHTML|document\.write|\beval\(|new Function|\"style\""
        if name == INDEX:
            wrong = r"<style|style=|<script>|<script [^>]*>[^<]| on\w+="
        assert not re.search(wrong, text), name
        without_names = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]", without_names), "an outside resource"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_modules_have_no_errors_of_syntax() -> None:
    command = ["node", "--input-type=module", "--check", "-"]
    for name in MODULES:
        ran = subprocess.run(
            command, input=text_of(name), capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr


@NEEDS_NODE
def test_a_stream_is_read_in_whatever_pieces_it_comes() -> None:
    code = """(async () => {
      const text = [
        ": events follow", "", "id: 1.1", 'data: {"a": "é"}', "",
        "event: gap", "data: 0", "", "data: 2", "", "data: 3",
      ].join("\\n");
      const bytes = new TextEncoder().encode(text);
      for (const size of [1, 7, 1000]) {
        const body = new ReadableStream({ start(to) {
          for (let at = 0; at < bytes.length; at += size) to.enqueue(bytes.slice(at, at + size));
          to.close();
        } });
        const found = [];
        for await (const each of messages(body)) found.push(each);
        console.log(JSON.stringify(found));
      }
    })()"""
    assert printed("server.js", code) == [['{"a": "é"}', "2"]] * 3


@NEEDS_NODE
def test_a_token_is_in_headers_and_in_this_tab_alone() -> None:
    code = """(() => {
      const kept = {};
      globalThis.sessionStorage = {
        setItem: (name, text) => { kept[name] = text; },
        removeItem: (name) => { delete kept[name]; },
      };
      const told = [];
      token.addEventListener("wanted", () => told.push("wanted"));
      token.addEventListener("given", () => told.push("given"));
      console.log(JSON.stringify([token.isHeld, token.headers]));
      token.saw(200); token.saw(401); token.saw(401);
      token.give("gk_x");
      console.log(JSON.stringify([token.isHeld, token.headers, kept, told]));
      token.give(null);
      console.log(JSON.stringify([token.isHeld, token.headers, kept]));
    })()"""
    assert printed("token.js", code) == [
        [False, {}],
        [
            True,
            {"Authorization": "Bearer gk_x"},
            {"groupkeeper.token": "gk_x"},
            ["wanted", "given"],
        ],
        [False, {}, {}],
    ]


@NEEDS_NODE
def test_a_token_is_entered_as_a_password_and_sent_by_no_form() -> None:
    form = drawn("token.js", "tokenForm()")
    [field] = found(form, "input")
    assert (field["attributes"]["type"], field["attributes"]["autocomplete"]) == ("password", "off")
    assert "name" not in field["attributes"] and "action" not in form["attributes"]
    assert "asks for a token" in words_of(form)


def test_every_request_of_the_page_brings_the_token() -> None:
    for name in MODULES:
        calls = re.findall(r"\bfetch\(.*", text_of(name))
        assert all("token.headers" in each for each in calls), name
        assert "EventSource(" not in text_of(name)


def printed(module: str, code: str) -> list[Any]:
    """The lines that code prints which sees the exports of a module, as JSON."""
    where = json.dumps((FOLDER / module).as_uri())
    script = f"""{DOCUMENT}
    const {{ {EXPORTS[module]} }} = await import({where});
    {code};"""
    command = ["node", "--input-type=module", "-"]
    ran = subprocess.run(
        command, input=script, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


EXPORTS = {"server.js": "messages", "token.js": "token"}


_FIELD = re.compile(r"(?:\.|[{,] |\b)([a-z]+(?:_[a-z]+)+)\b")
"""A name with underscores: JavaScript's own have none."""
_STRING = re.compile(r'"[^"]*"')


def test_fields_that_the_page_reads_are_in_the_openapi_document(web: Web) -> None:
    known = set(re.findall(r"[a-z]+(?:_[a-z]+)+", json.dumps(web.document)))
    timers = {"initial_delay", "new_member", "pending_member", "under_way"}
    for name in MODULES:
        text = re.sub(r"//.*", "", text_of(name))
        found = set(_FIELD.findall(_STRING.sub("", text)))
        assert found <= known | timers, name


def test_states_and_timers_that_the_page_shows_are_the_servers(web: Web) -> None:
    states = web.document["components"]["schemas"]["GroupRow"]["properties"]["state"]["enum"]
    table = text_of("groups.js").partition("export const STATES = {")[2].partition("}")[0]
    assert sorted(re.findall(r"(\w+):", table)) == sorted(states)
