"""How commands reach an HTTP port with TLS and tokens, and what they say if they do not."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from groupkeeper.access.http_tokens import HttpToken, digest_of, new_token
from groupkeeper.cli import main
from groupkeeper.cli.http_port import HttpTarget, http_options
from tests.support.certificates import Certificates
from tests.support.process import Process, Ready
from tests.support.requests import join_request
from tests.support.wire import connect

Capture = pytest.CaptureFixture[str]
TOKEN = new_token()


class Running(NamedTuple):
    """A server whose HTTP port has TLS and tokens, and the files of its clients."""

    ready: Ready
    made: Certificates
    token: Path

    @property
    def tls(self) -> list[str]:
        return ["--http", f"https://{self.ready.http}", "--http-ca", str(self.made.ca)]

    @property
    def whole(self) -> list[str]:
        return [*self.tls, "--http-token-file", str(self.token)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("http")
    made = Certificates(folder)
    (folder / "tokens").write_text(f"{HttpToken('board', 'read', digest_of(TOKEN))}\n")
    (folder / "tokens").chmod(0o600)
    token = folder / "token"
    token.write_text(f"{TOKEN}\nsecond line\n")
    settings = (*made.settings(), "http.tls=true", f"http.tokens.file={folder / 'tokens'}")
    words = [word for each in settings for word in ("--set", each)]
    with Process("--dev", "--memory", "--http", "127.0.0.1:0", *words) as process:
        yield Running(process.ready(), made, token)


def error_of(words: Sequence[str], capsys: Capture) -> str:
    """The line of a status that fails."""
    assert main(["status", *words]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_status_with_tls_and_a_token(running: Running, capsys: Capture) -> None:
    assert main(["status", "--json", *running.whole]) == 0
    out, err = capsys.readouterr()
    assert err == "" and json.loads(out)["ready"]
    # Without a scheme, a given authority means TLS.
    without = [each.removeprefix("https://") for each in running.whole]
    assert main(["status", *without]) == 0


def test_a_file_for_clients_has_all_of_it(
    running: Running, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    lines = {
        "http": f"https://{running.ready.http}",
        "http.ca": running.made.ca,
        "http.token.file": running.token,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    assert main(["status", "--command-config", str(file)]) == 0
    monkeypatch.setenv("GROUPKEEPER_HTTP", f"https://{running.ready.http}")
    monkeypatch.setenv("GROUPKEEPER_HTTP_CA", str(running.made.ca))
    monkeypatch.setenv("GROUPKEEPER_HTTP_TOKEN_FILE", str(running.token))
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""


def test_what_is_missing_is_named(running: Running, capsys: Capture, tmp_path: Path) -> None:
    where = running.ready.http
    wrong = tmp_path / "wrong"
    wrong.write_text("gk_wrong")
    other = Certificates(tmp_path)
    for words, told in (
        (running.tls, f"{where} asks for a token: give one in --http-token-file"),
        (
            [*running.tls, "--http-token-file", str(wrong)],
            f"{where} does not take the token of {wrong}: give another one in --http-token-file",
        ),
        (
            ["--http", f"https://{where}", "--http-ca", str(other.ca)],
            f"the certificate of {where} is not trusted (",
        ),
        (["--http", f"https://{where}"], "): give that of its authority in --http-ca"),
        (["--http", where], f"name its HTTP port with --http, as https://{where} if it speaks TLS"),
        (
            ["--http", f"https://{where}", "--http-ca", str(wrong)],
            f"{wrong} has no certificates in PEM: give others in --http-ca",
        ),
    ):
        err = error_of(words, capsys)
        assert told in err
        assert "gk_wrong" not in err and TOKEN not in err


def test_a_certificate_of_another_name_is_told(
    running: Running, tmp_path: Path, capsys: Capture
) -> None:
    # 127.0.0.2 is the loopback as well, and not in the certificate.
    address = f"127.0.0.2:{running.ready.http.rpartition(':')[2]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.create_connection", _to(running.ready.http))
        err = error_of(["--http", f"https://{address}", "--http-ca", str(running.made.ca)], capsys)
    assert f"the certificate of {address} is for another name (" in err


def _to(address: str) -> Any:
    import socket

    connect = socket.create_connection
    host, _, port = address.rpartition(":")
    return lambda _, *given, **named: connect((host, int(port)), *given, **named)


def test_a_port_without_tls_is_told(capsys: Capture) -> None:
    with Process("--dev", "--memory", "--http", "127.0.0.1:0") as process:
        where = process.ready().http
        err = error_of(["--http", f"https://{where}"], capsys)
    assert f"{where} does not speak TLS (" in err
    assert f"give --http http://{where}" in err


def test_why_with_tls_and_a_token(running: Running, capsys: Capture) -> None:
    host, port = running.ready.kafka
    with connect(running.ready.kafka) as client:
        client.call(3, join_request("g"))
    call = ["why", "g", "--bootstrap-server", f"{host}:{port}"]
    for words, told in (
        (running.tls, "asks for a token: missing members are not shown; give one in --http-token"),
        (running.whole, ""),
    ):
        main([*call, *words])
        err = capsys.readouterr().err
        assert told in err and ("asks for a token" in err) == bool(told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--http", "ftp://h:1"], "'ftp://h:1' is neither http:// nor https://"),
        (["--http", "https://h"], "is not HOST:PORT"),
        (["--http", "off"], "'off' is not HOST:PORT"),
        (["--http-token-file", "/nowhere"], "'/nowhere' does not exist"),
        (["--http-ca", "/nowhere"], "'/nowhere' does not exist"),
    ],
)
def test_wrong_calls(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["status", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "\ntoken", "two words", "é", "x\x00y"])
def test_a_file_without_a_token_is_a_wrong_call(tmp_path: Path, text: str, capsys: Capture) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    assert main(["status", "--http-token-file", str(file)]) == 2
    assert f"{file}: its first line is no token" in capsys.readouterr().err


def test_an_authority_for_a_port_without_tls_is_a_wrong_call(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    assert main(["status", "--http", "http://h:1", "--http-ca", str(file)]) == 2
    assert "--http-ca is for a port with TLS" in capsys.readouterr().err


# -- an address that a cluster tells ---------------------------------------------------------------


def test_a_token_goes_to_no_address_that_a_cluster_tells_without_tls() -> None:
    plain = HttpTarget(token=TOKEN)
    found = plain.guessed(("kafka.example", 9644))
    assert (found.token, found.withheld) == ("", True)
    assert plain.guessed(("127.0.0.1", 9644)).token == TOKEN
    assert HttpTarget(tls=True, token=TOKEN).guessed(("kafka.example", 9644)).token == TOKEN
    assert not HttpTarget().guessed(("kafka.example", 9644)).withheld
    assert TOKEN not in repr(plain)


@click.command()
@http_options(None, "", off=True)
def shown(http: HttpTarget | None) -> None:
    print(http)


def test_off_is_no_port(capsys: Capture) -> None:
    shown.main(["--http", "off"], standalone_mode=False)
    assert capsys.readouterr().out == "None\n"
    shown.main([], standalone_mode=False)
    assert "address=None" in capsys.readouterr().out
