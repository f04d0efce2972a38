"""A server whose HTTP port takes tokens, in a process of its own, spoken to over sockets."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groupkeeper.access.http_tokens import HttpToken, digest_of, new_token
from groupkeeper.web.page_files import FOLDER
from tests.support.process import Process, Ready
from tests.support.requests import join_request
from tests.support.wire import connect
from tests.web.drawn import DOCUMENT, NEEDS_NODE

WAIT_S = 30.0
READER, WRITER = new_token(), new_token()
JSON = "application/json"


class Running(NamedTuple):
    """A server, and the file where it logs."""

    ready: Ready
    log: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tokens")
    file = folder / "tokens"
    some = (
        HttpToken("board", "read", digest_of(READER)),
        HttpToken("ops", "write", digest_of(WRITER)),
    )
    file.write_text("".join(f"{each}\n" for each in some))
    file.chmod(0o600)
    settings = (
        *("--set", f"http.tokens.file={file}"),
        *("--set", "http.open.paths=/healthz,/metrics"),
    )
    words = ("--dev", "--memory", "--http", "127.0.0.1:0", *settings)
    with Process(*words, log=folder / "log") as process:
        yield Running(process.ready(), folder / "log")


class Found(NamedTuple):
    """An answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(
    running: Running, path: str, token: str | None = None, body: Any = None, **headers: str
) -> Found:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body)
    if data is not None:
        headers["Content-Type"] = JSON
    connection = http.client.HTTPConnection(running.ready.http, timeout=WAIT_S)
    try:
        connection.request("GET" if data is None else "POST", path, data, headers)
        answer = connection.getresponse()
        return Found(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/status", "/readyz", "/api/v1/groups", "/api/v1/openapi.json", "/api/v1/follow", "/x"]
)
def test_what_needs_a_token(running: Running, path: str) -> None:
    for token in (None, "gk_unknown"):
        refused = ask(running, path, token)
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"].startswith('Bearer realm="groupkeeper"')
        assert refused.headers["Content-Type"] == JSON
        assert set(json.loads(refused.body)) == {"error"}
    if path not in ("/x", "/api/v1/follow"):
        assert ask(running, path, READER).status == 200
    assert ask(running, "/x", READER).status == 404


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/healthz", "/metrics"])
def test_what_needs_none(running: Running, path: str) -> None:
    assert ask(running, path).status == 200
    assert ask(running, path, "gk_unknown").status == 200


def test_only_the_role_write_changes_something(running: Running) -> None:
    with connect(running.ready.kafka):
        pass
    path = "/api/v1/groups/none/delete"
    assert ask(running, path, body={}).status == 401
    refused = ask(running, path, READER, body={})
    assert (refused.status, json.loads(refused.body)["error"]) == (
        403,
        "Token:board has the role read: send a token with the role write",
    )
    assert ask(running, path, WRITER, body={}).status == 404


def test_a_token_does_not_help_a_foreign_page(running: Running) -> None:
    assert ask(running, "/status", WRITER, Host="evil.example").status == 403
    assert ask(running, "/status", WRITER, Origin="http://evil.example").status == 403


def test_a_body_without_a_token_is_not_read_into_memory_and_the_connection_stays(
    running: Running,
) -> None:
    connection = http.client.HTTPConnection(running.ready.http, timeout=WAIT_S)
    for _ in range(2):
        connection.request("POST", "/api/v1/groups/g/delete", "x" * 60_000, {"Content-Type": JSON})
        answer = connection.getresponse()
        assert (answer.status, answer.read()[:9]) == (401, b'{"error":')
    connection.close()


def test_secrets_are_told_nowhere_and_requests_are_counted(running: Running) -> None:
    planted = "gk_PLANTED"
    ask(running, f"/status?token={READER}", planted)
    ask(running, "/status", READER)
    metrics = ask(running, "/metrics").body.decode()
    name = "groupkeeper_authentications_total"
    for outcome in ("succeeded", "failed"):
        labels = f'{{listener="HTTP",mechanism="token",outcome="{outcome}"}}'
        [line] = [each for each in metrics.splitlines() if each.startswith(name + labels)]
        assert float(line.rpartition(" ")[2]) > 0
    told = running.log.read_text()
    assert "Token:board" in told and "login failed" in told
    for secret in (planted, READER, WRITER):
        assert secret not in told and secret not in metrics
    assert "Traceback" not in told


@NEEDS_NODE
def test_the_stream_of_the_page_brings_the_token(running: Running) -> None:
    module = json.dumps((FOLDER / "server.js").as_uri())
    base = json.dumps(f"http://{running.ready.http}/")
    script = f"""{DOCUMENT}
    globalThis.document.hidden = false;
    const {{ Follow, get }} = await import({module});
    const {{ token }} = await import({module.replace("server.js", "token.js")});
    const asked = globalThis.fetch;
    globalThis.fetch = (path, options) => asked({base} + path, options);
    setTimeout(() => process.exit(1), {WAIT_S * 1000});
    const refused = await get(["groups"]).catch((problem) => problem);
    console.log(refused.status, token.isWanted);
    token.give({json.dumps(READER)});
    console.log(Object.keys(await get(["groups"])).includes("groups"), token.isWanted);
    const follow = new Follow(null, (event) => {{
      console.log(event.type);
      process.exit(0);
    }}, () => console.log(follow.isOpen));"""
    command = ["node", "--input-type=module", "-e", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert [node.stdout.readline() for _ in range(3)] == [
            "401 true\n",
            "true false\n",
            "true\n",
        ]
        with connect(running.ready.kafka) as client:
            client.call(3, join_request("page"))
        assert node.stdout.readline() in ("group_created\n", "member_joined\n")
        assert node.wait(WAIT_S) == 0


@pytest.mark.parametrize("text", [None, "ops write secret\n"])
def test_without_a_usable_file_a_server_does_not_start(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)
    words = ("--dev", "--memory", "--http", "127.0.0.1:0", "--set", f"http.tokens.file={file}")
    with Process(*words) as process:
        assert process.wait() == 2
    assert process.errors.startswith(f"groupkeeper: http.tokens.file = {file}: ")
    assert process.errors.count("\n") == 1
    assert "secret" not in process.errors.replace("secrets", "")


def test_the_document_names_the_security_scheme(running: Running) -> None:
    document = json.loads(ask(running, "/api/v1/openapi.json", READER).body)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["security"] == [{}, {"token": []}]
    every = [each for path in document["paths"].values() for each in path.values()]
    assert all("401" in each["responses"] for each in every)
