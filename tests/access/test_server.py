"""A server with SASL listeners as a whole: what it imports, warns of, counts, and never shows."""

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.pages import pages
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.server.main import warn_of_open_ports
from groupkeeper.settings.options import Listen, SecurityProtocol, ServeOptions
from groupkeeper.settings.table import SettingsError
from tests.access import tokens
from tests.access.conversations import (
    PLAIN_USERS,
    SASL,
    SCRAM_512,
    SCRAM_PASSWORD,
    SESSIONS,
    Talk,
    bearer,
    scram,
)
from tests.access.record import SocketLine
from tests.access.secured import PLAINTEXT, Secured
from tests.support.process import Process
from tests.support.served import Lines
from tests.support.wire import connect

PROGRAM = """
import sys
from groupkeeper.cli import main
show = print
def told(*words, **how):
    show(*words, **how)
    late = {"scramp", "joserfc", "cryptography", "ssl", "asn1crypto"}
    show(*sorted(late & {each.partition(".")[0] for each in sys.modules}), "-", flush=True)
import builtins
builtins.print = told
sys.exit(main(sys.argv[1:]))
"""


def test_nothing_of_logins_is_imported_before_the_first(tmp_path: Path) -> None:
    settings = (
        *("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"),
        *("--set", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER"),
        *("--set", "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere"),
    )
    words = "--http", "off", "--data-dir", str(tmp_path / "data"), *settings
    program = (sys.executable, "-c", PROGRAM)
    with Process(*words, program=program, listen=None, log=tmp_path / "log") as process:
        process.ready()
        assert process.line().split() == ["-"]


def test_a_server_without_mechanisms_does_not_start(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "groupkeeper", "serve", "--data-dir", str(tmp_path / "data")]
    settings = ["--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"]
    done = subprocess.run([*words, *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "listener SASL_PLAINTEXT needs sasl.enabled.mechanisms" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "data").exists()


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.server.logins.find_spec", lambda name: None)
    own = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    with pytest.raises(SettingsError, match="needs the package scramp: pip install scramp"):
        Secured(tmp_path, own).__enter__()


async def test_a_port_with_logins_is_no_open_port(lines: Lines) -> None:
    everywhere = ("0.0.0.0", 9092)
    sasl = Listen("A", everywhere, protocol=SecurityProtocol.SASL_PLAINTEXT)
    options = ServeOptions(Path("data"), (sasl, Listen("B", everywhere)), http=None)
    await warn_of_open_ports(options)
    assert len(lines()) == 1


def test_logins_are_counted(secured: Secured) -> None:
    talk = Talk(SocketLine(secured.ports[SASL]))
    talk.plain()
    Talk(SocketLine(secured.ports[SASL])).plain(password="wrong")

    async def page() -> str:
        made = await pages(secured.server.metrics)["/metrics"](HttpRequest("GET", "/metrics"))
        return b"".join(made.body).decode()

    text = secured.run(page())
    name = 'groupkeeper_authentications_total{listener="SASL_PLAINTEXT",mechanism='
    assert f'{name}"PLAIN",outcome="succeeded"}} 1.0' in text
    assert f'{name}"PLAIN",outcome="failed"}} 1.0' in text
    assert f'{name}"OAUTHBEARER",outcome="expired"}} 0.0' in text


def test_plain_uses_stored_users_if_none_are_listed(tmp_path: Path) -> None:
    """On threads of their own: the event loop derives no key."""
    own = {f"listener.name.{each}.plain.sasl.jaas.config": None for each in ("sasl_plaintext",)}
    with Secured(tmp_path, own) as server:
        for name, password in PLAIN_USERS.items():
            talk = Talk(SocketLine(server.ports[SASL]))
            talk.plain(name, password)
            assert talk.ask(4, ListGroupsRequest()).error_code == 0
        for name in ("alice", "nobody"):
            talk = Talk(SocketLine(server.ports[SASL]))
            talk.plain(name, "wrong")
            assert "Invalid username or password" in talk.heard[-1]
        names = {each.name for each in threading.enumerate()}
        assert {each.partition("_")[0] for each in names if each.startswith("login-")} == {
            "login-1",
            "login-2",
        }


def test_two_listeners_have_issuers_of_their_own(tmp_path: Path) -> None:
    other = "https://other.example"
    own = "listener.name.sessions.oauthbearer.sasl.oauthbearer.expected.issuer"
    with Secured(tmp_path, {own: other}) as server:
        for listener, issuer in ((SASL, tokens.ISSUER), (SESSIONS, other)):
            for token in (tokens.signed(iss=tokens.ISSUER), tokens.signed(iss=other)):
                bearer(Talk(SocketLine(server.ports[listener])), token)
            outcomes = server.outcomes(listener)
            assert outcomes == {("OAUTHBEARER", "succeeded"): 1, ("OAUTHBEARER", "failed"): 1}
            talk = Talk(SocketLine(server.ports[listener]))
            bearer(talk, tokens.signed(iss=issuer))
            assert talk.heard[-1] == "ListGroups error 0"


def test_a_jwks_that_hangs_stops_nobody_else(tmp_path: Path) -> None:
    """Nor does it keep the server from stopping."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
        with Secured(tmp_path, {"sasl.oauthbearer.jwks.endpoint.url": url}) as server:
            waiting = Talk(SocketLine(server.ports[SASL]))
            waiting.hello("OAUTHBEARER")
            token = b"n,,\x01auth=Bearer a.b.c\x01\x01"
            waiting.send(2, SaslAuthenticateRequest(auth_bytes=token))
            talk = Talk(SocketLine(server.ports[SASL]))
            scram(talk, SCRAM_512)
            assert talk.heard[-1] == "ListGroups error 0"


def test_no_secret_is_shown(secured: Secured, lines: Lines) -> None:
    """Not in configs of the broker, metrics, lines, nor the repr of what holds settings."""
    secrets = [*PLAIN_USERS.values(), SCRAM_PASSWORD]
    with connect(("127.0.0.1", secured.ports[PLAINTEXT])) as client:
        resource = DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name="0", configuration_keys=None
        )
        configs = client.call(4, DescribeConfigsRequest(resources=[resource]))
    shown = [repr(configs), repr(secured.server._options), repr(secured.server.metrics.counts)]
    shown += [repr(line) for line in lines()]
    access: Any = secured.server.topics.catalog.access
    keys = [each["stored_key"] for each in access.values()]
    assert keys and not [each for each in (*secrets, *keys) for text in shown if each in text]
