"""The keys of an issuer: read on a thread, kept, read again, and never waited for if there are
some.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from groupkeeper.access import jwks
from groupkeeper.access.jwks import KEYS_BYTES, SOON_S, Jwks, read_keys
from groupkeeper.access.sasl import SaslFailed
from tests.access import tokens
from tests.support.served import Lines

REFRESH_S, FIRST_S, MOST_S = 100.0, 1.0, 8.0


class Issuer:
    """What the keys are read from."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.reads = 0
        self.keys: list[str] | Exception = ["one"]
        self.hangs = threading.Event()
        self.hangs.set()
        self.jwks = Jwks(
            "https://me:secret@issuer/keys?key=secret",
            REFRESH_S,
            (FIRST_S, MOST_S),
            lambda: self.now,
            self._read,
        )

    def _read(self, url: str) -> list[str]:
        self.reads += 1
        self.hangs.wait(20)
        if isinstance(self.keys, Exception):
            raise self.keys
        return self.keys

    async def read(self) -> None:
        """Let a request that is under way end."""
        if self.jwks._reading is not None:
            await self.jwks._reading


async def test_keys_are_read_once_for_many_logins() -> None:
    issuer = Issuer()
    found = await asyncio.gather(*(issuer.jwks.keys() for _ in range(50)))
    assert found == [["one"]] * 50 and issuer.reads == 1


async def test_keys_are_read_again_and_the_old_ones_used_meanwhile() -> None:
    issuer = Issuer()
    await issuer.jwks.keys()
    issuer.now += REFRESH_S
    issuer.keys = ["two"]
    issuer.hangs.clear()
    for _ in range(10):
        assert await issuer.jwks.keys() == ["one"]
    issuer.hangs.set()
    await issuer.read()
    assert await issuer.jwks.keys() == ["two"] and issuer.reads == 2


async def test_old_keys_stay_while_new_ones_cannot_be_read(lines: Lines) -> None:
    issuer = Issuer()
    await issuer.jwks.keys()
    issuer.now += REFRESH_S
    issuer.keys = OSError("no route")
    assert await issuer.jwks.keys() == ["one"]
    await issuer.read()
    assert await issuer.jwks.keys() == ["one"]
    [line] = lines()
    assert (line["event"], line["url"]) == ("keys of tokens cannot be read", "https://issuer/keys")


async def test_failures_are_retried_ever_more_rarely() -> None:
    issuer = Issuer()
    issuer.keys = ValueError("no JSON")
    times = []
    for _ in range(200):
        before = issuer.reads
        with pytest.raises(SaslFailed):
            await issuer.jwks.keys()
        if issuer.reads > before:
            times.append(issuer.now)
        issuer.now += 0.5
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, MOST_S]
    assert {*pauses[4:]} == {MOST_S}


async def test_an_unknown_key_is_looked_for_soon_but_not_often() -> None:
    issuer = Issuer()
    await issuer.jwks.keys()
    for _ in range(20):
        issuer.jwks.unknown()
        await issuer.jwks.keys()
    assert issuer.reads == 1  # they were read a moment ago
    issuer.now += SOON_S
    for _ in range(20):
        issuer.jwks.unknown()
        await issuer.jwks.keys()
        await issuer.read()
    assert issuer.reads == 2


# -- what is read ----------------------------------------------------------------------------------


def write(path: Path, value: object) -> str:
    path.write_text(json.dumps(value) if not isinstance(value, str) else value)
    return path.as_uri()


def test_a_file_is_read(tmp_path: Path) -> None:
    tokens.write_keys(tmp_path / "my keys.json")
    assert [each.kid for each in read_keys((tmp_path / "my keys.json").as_uri())] == ["rsa", "ec"]


def test_symmetric_and_unknown_keys_are_left_out(tmp_path: Path) -> None:
    good = tokens.key(tokens.EC).as_dict(private=False)
    rows = [{"kty": "oct", "k": "AAAA"}, {"kty": "new"}, {}, 7, {"kty": "RSA", "n": "!"}, good]
    assert [each.kid for each in read_keys(write(tmp_path / "k", {"keys": rows}))] == ["ec"]


TOO_LONG = "x" * KEYS_BYTES * 2


@pytest.mark.parametrize("value", ["", "{", [], {}, {"keys": 1}, {"keys": []}, TOO_LONG])
def test_what_is_no_set_of_keys_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of json, too
        read_keys(write(tmp_path / "k", value))


class Web(BaseHTTPRequestHandler):
    """Serves keys, a redirect to them, and pages that do not end."""

    keys: ClassVar[bytes] = b""
    over: ClassVar[threading.Event]

    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/keys")
        self.end_headers()
        if self.path == "/keys":
            self.wfile.write(self.keys)
        elif self.path == "/drip":
            while not self.over.wait(0.02):
                self.wfile.write(b" ")
        elif self.path == "/hang":
            self.over.wait(20)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    tokens.write_keys(tmp_path / "keys")
    Web.keys, Web.over = (tmp_path / "keys").read_bytes(), threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Web.over.set()
    server.shutdown()
    server.server_close()


def test_a_url_is_read(web: str) -> None:
    assert len(read_keys(f"{web}/keys")) == 2


@pytest.mark.parametrize("path", ["moved", "hang", "drip"])
def test_a_url_that_moves_or_hangs_fails(
    web: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_S", 0.2)
    with pytest.raises((OSError, ValueError)):
        read_keys(f"{web}/{path}")
