"""Tokens and TLS of the HTTP port of `groupkeeper observe`: the same as a server's."""

import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from groupkeeper.access.http_tokens import HttpToken, digest_of, new_token
from groupkeeper.cli import main
from groupkeeper.settings.table import Settings, SettingsError
from groupkeeper.watch.settings import TAKEN, observer_settings
from tests.support.certificates import Certificates
from tests.support.observing import Observing, observing
from tests.support.populated import PAIR

Capture = pytest.CaptureFixture[str]
READER, WRITER, GONE = new_token(), new_token(), new_token()
WAIT_S = 30.0


class Running(NamedTuple):
    """An observer whose port has TLS and tokens."""

    observer: Observing
    made: Certificates
    tokens: Path


def write_tokens(path: Path, *rows: tuple[str, str, str]) -> None:
    """Write name, role and token of each row."""
    lines = [f"{HttpToken(name, role, digest_of(token))}\n" for name, role, token in rows]
    path.write_text("".join(lines))
    path.chmod(0o600)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, bootstrap: str) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("observed")
    made, tokens = Certificates(folder), folder / "tokens"
    kept = (("board", "read", READER), ("ops", "write", WRITER))
    write_tokens(tokens, *kept, ("gone", "read", GONE))
    settings = (
        "ssl.keystore.type=PEM",
        f"listener.name.http.ssl.keystore.location={made.server}",
        "http.tls=true",
        f"http.tokens.file={tokens}",
        "http.open.paths=/healthz",
    )
    words = [word for each in settings for word in ("--set", each)]
    with observing(bootstrap, folder / "data", *words) as observer:
        observer.tls, observer.token = made.context(), READER
        observer.caught_up()
        yield Running(observer, made, tokens)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_nothing_is_told_without_a_token(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for token in (None, "gk_unknown"):
        monkeypatch.setattr(running.observer, "token", token)
        for path in ("/status", "/metrics", "/readyz", "/api/v1/groups", "/api/v1/follow"):
            assert running.observer.status(path) == 401
        assert running.observer.status("/healthz") == 200
        assert running.observer.status("/") == 200, "the page has no data"


def test_with_a_token_groups_are_told(running: Running, capsys: Capture, tmp_path: Path) -> None:
    names = {each["group"] for each in running.observer.get("/api/v1/groups")["groups"]}
    assert PAIR in names
    token = tmp_path / "token"
    token.write_text(READER)
    port = ["--http", f"https://{running.observer.http}", "--http-ca", str(running.made.ca)]
    assert main(["status", *port, "--http-token-file", str(token)]) == 0
    assert "observer, by" in capsys.readouterr().out


def test_a_token_to_write_changes_nothing(running: Running) -> None:
    context = running.made.context()
    connection = http.client.HTTPSConnection(running.observer.http, timeout=WAIT_S, context=context)
    headers = {"Authorization": f"Bearer {WRITER}", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/groups/{PAIR}/delete", "{}", headers)
    answer = connection.getresponse()
    assert (answer.status, b"observer" in answer.read()) == (403, True)
    connection.close()


def test_the_port_speaks_tls_alone(running: Running) -> None:
    connection = http.client.HTTPConnection(running.observer.http, timeout=WAIT_S)
    connection.request("GET", "/healthz")
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    connection.close()


def test_a_token_that_is_removed_is_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.observer, "token", GONE)
    assert running.observer.status("/status") == 200
    write_tokens(running.tokens, ("board", "read", READER), ("ops", "write", WRITER))
    until(lambda: running.observer.status("/status") == 401)


def test_a_new_certificate_is_used(running: Running) -> None:
    host, _, port = running.observer.http.rpartition(":")
    before = ssl.get_server_certificate((host, int(port)))
    running.made.renew()
    until(lambda: ssl.get_server_certificate((host, int(port))) != before)


def test_logins_and_the_certificate_are_metrics(running: Running) -> None:
    told = running.observer.text("/metrics")
    for each in (
        'groupkeeper_authentications_total{listener="HTTP",mechanism="token",outcome="succeeded"}',
        'groupkeeper_certificate_expires_seconds{listener="HTTP"}',
    ):
        assert each in told


# -- settings --------------------------------------------------------------------------------------


def test_only_settings_of_the_port_are_taken() -> None:
    given = ["http.tls=true", "listener.name.http.ssl.keystore.type=PEM", "http.hosts=a.example"]
    settings, unused = observer_settings({}, given)
    assert settings.http_tls and not unused
    assert settings.for_listener("HTTP").ssl_keystore_type == "PEM"
    for other in ("http.api.write=true", "num.partitions=3", "listener.name.x.ssl.key.password=a"):
        with pytest.raises(SettingsError, match="an observer takes the settings of its HTTP port"):
            observer_settings({}, [other])


def test_variables_of_a_server_beside_it_have_no_effect() -> None:
    variables = {
        "GROUPKEEPER_HTTP_HOSTS": "a.example",
        "GROUPKEEPER_NUM_PARTITIONS": "3",
        "GROUPKEEPER_HTTP_API_WRITE": "true",
        "GROUPKEEPER_TIMEOUT": "3",
    }
    settings, unused = observer_settings(variables, [])
    assert (settings.http_hosts, settings.http_api_write) == ("a.example", False)
    assert settings.num_partitions == Settings().num_partitions
    assert unused == ("http.api.write", "num.partitions")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("http.tokens.file=/nowhere", "http.tokens.file = /nowhere: No such file or directory"),
        ("http.tls=true", "listener HTTP: "),
        ("http.tsl=true", "did you mean http.tls?"),
        ("http.tls", "give it as KEY=VALUE"),
        ("http.api.write=true", "an observer takes the settings of its HTTP port alone"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_line(
    given: str, told: str, bootstrap: str, tmp_path: Path, capsys: Capture
) -> None:
    where = ["--bootstrap-server", bootstrap, "--data", str(tmp_path / "data")]
    assert main(["observe", *where, "--http", "127.0.0.1:0", "--set", given]) == 2
    err = capsys.readouterr().err
    assert told in err.splitlines()[-1]


def test_the_page_about_it_names_the_settings() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "observe.md").read_text(encoding="utf-8")
    assert all(f"`{each}`" in page for each in TAKEN)
