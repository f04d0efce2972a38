"""Sessions of connections with SASL, on a server where they last some seconds: the
login is made anew on the same connection, whoever asks meanwhile; and what a refused login says.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.access.users import user_key
from groupkeeper.cli import main
from groupkeeper.client import CallFailed, Client
from groupkeeper.client.config import read_config
from groupkeeper.client.oauth import CLIENT_ID, CLIENT_SECRET, ENDPOINT
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.topics.topics import wall_ms
from tests.access import tokens
from tests.access.secured import stored
from tests.support.observing import observing
from tests.support.secure_server import WAIT_S, SecureServer
from tests.support.token_endpoint import CLIENT_ID as ID
from tests.support.token_endpoint import SECRET, TokenEndpoint

LISTENER, SESSION_MS = "SASL_PLAINTEXT", 2500
SCRAM = "SCRAM-SHA-256"
PASSWORD = "PLANTED-of-member"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_al="{PASSWORD}";'
DUE_AT = (0.5, 0.6)
"""When clients of this process log in anew: also a slow machine keeps the rest of a session."""
ASK_S = 3.4
"""How long requests are made: until the second of these logins, and not until the third."""
Capture = pytest.CaptureFixture[str]


class Server(SecureServer):
    """One listener with three mechanisms."""

    def __init__(self, folder: Path) -> None:
        tokens.write_keys(folder / "jwks.json")
        super().__init__(
            [
                f"listeners={LISTENER}://127.0.0.1:0",
                f"sasl.enabled.mechanisms=PLAIN,{SCRAM},OAUTHBEARER",
                JAAS,
                f"connections.max.reauth.ms={SESSION_MS}",
                f"sasl.oauthbearer.jwks.endpoint.url={(folder / 'jwks.json').as_uri()}",
                f"sasl.oauthbearer.expected.issuer={tokens.ISSUER}",
                f"sasl.oauthbearer.expected.audience={tokens.AUDIENCE}",
            ]
        )
        entry = (user_key("al", SCRAM), stored(SCRAM, PASSWORD))
        self.run(self.server.topics.catalog.change_access([entry], wall_ms()))

    def logins(self, mechanism: str) -> int:
        """Logins on connections that were logged in before."""
        return self.server.metrics.authentications[LISTENER, mechanism, "reauthenticated"]

    @property
    def accepted(self) -> int:
        """Connections that were opened so far."""
        return self.server.metrics.connections.accepted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("sessions"))
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def due_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process log in anew when half of a session is left."""
    monkeypatch.setattr("groupkeeper.client.sessions.DUE_AT", DUE_AT)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as running:
        yield running


def config(folder: Path, mechanism: str, url: str) -> Path:
    """A file for `--command-config`."""
    path = folder / f"{mechanism}.properties"
    login = f'sasl.jaas.config={MODULE} username="al" password="{PASSWORD}";\n'
    if mechanism == "OAUTHBEARER":
        login = f"{ENDPOINT}={url}\n{CLIENT_ID}={ID}\n{CLIENT_SECRET}={SECRET}\n"
    path.write_text(f"security.protocol={LISTENER}\nsasl.mechanism={mechanism}\n{login}")
    return path


async def ask(client: Client, end_s: float) -> int:
    """Ask again and again; how often."""
    count = 0
    while time.monotonic() < end_s:
        await client.call(MetadataRequest(topics=[]), node=0)
        count += 1
        await asyncio.sleep(0.01)
    return count


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM, "OAUTHBEARER"])
async def test_a_login_is_made_anew_before_the_session_ends(
    mechanism: str, server: Server, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    given: Any = read_config(config(tmp_path, mechanism, endpoint.url))
    endpoint.asked.clear()
    async with Client(server.address(LISTENER), **given) as client:
        await client.call(MetadataRequest(topics=[]), node=0)
        accepted, logins = server.accepted, server.logins(mechanism)
        end_s = time.monotonic() + ASK_S
        counts = await asyncio.gather(*(ask(client, end_s) for _ in range(5)))
    assert min(counts) > 20
    assert server.logins(mechanism) - logins == 2
    assert server.accepted == accepted, "on the same connection"
    assert len(endpoint.asked) == (mechanism == "OAUTHBEARER"), "a token is kept"


async def test_after_a_pause_the_login_comes_first(
    server: Server, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    given: Any = read_config(config(tmp_path, "OAUTHBEARER", endpoint.url))
    async with Client(server.address(LISTENER), **given) as client:
        await client.call(MetadataRequest(topics=[]), node=0)
        accepted = server.accepted
        await asyncio.sleep(SESSION_MS / 1000 + 0.2)
        await client.call(MetadataRequest(topics=[]), node=0)
    assert server.accepted == accepted
    assert (LISTENER, f"User:{tokens.NAME}") in server.principals()


async def test_a_login_that_fails_closes_the_connection_and_is_told(
    server: Server, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(tokens.good())
    given: Any = read_config(config(tmp_path, "OAUTHBEARER", token.as_uri()))
    async with Client(server.address(LISTENER), **given) as client:
        await client.call(MetadataRequest(topics=[]), node=0)
        token.write_text(tokens.signed(iss="https://other.example"))
        await asyncio.sleep(SESSION_MS / 1000)
        with pytest.raises(CallFailed, match="the broker does not take the token") as raised:
            await client.call(MetadataRequest(topics=[]), node=0)
        assert raised.value.error is ErrorCode.NETWORK_EXCEPTION
        token.write_text(tokens.good())
        await client.call(MetadataRequest(topics=[]), node=0)


async def test_without_a_token_the_failure_says_why(
    server: Server, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    given: Any = read_config(config(tmp_path, "OAUTHBEARER", endpoint.url))
    endpoint.claims = {"exp": int(time.time()) + 2}
    try:
        async with Client(server.address(LISTENER), **given) as client:
            await client.call(MetadataRequest(topics=[]), node=0)
            endpoint.answers += [(503, SECRET.encode())] * 50
            with pytest.raises(CallFailed) as raised:
                await ask(client, time.monotonic() + 5)
            assert f"{endpoint.url} answers 503" in str(raised.value)
            with pytest.raises(CallFailed) as again:
                await client.call(MetadataRequest(topics=[]))
            assert f"{endpoint.url} answers 503" in str(again.value)
            assert SECRET not in f"{raised.value}{again.value}"
    finally:
        endpoint.answers.clear()
        endpoint.claims = {}


def test_an_observer_reads_on_while_its_sessions_end(
    server: Server, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    file = config(tmp_path, "OAUTHBEARER", endpoint.url)
    words = ("--command-config", str(file))
    with observing(server.address(LISTENER), tmp_path / "data", *words) as observer:
        observer.caught_up()
        logins, end_s = server.logins("OAUTHBEARER"), time.monotonic() + WAIT_S
        while server.logins("OAUTHBEARER") < logins + 2:
            assert time.monotonic() < end_s, observer.log.read_text()
            time.sleep(0.05)
        assert "\ngroupkeeper_observer_fetch_failures_total 0.0\n" in observer.text("/metrics")
    told = observer.log.read_text()
    assert "cannot be read" not in told and SECRET not in told


def test_what_a_command_says(
    server: Server, endpoint: TokenEndpoint, tmp_path: Path, capsys: Capture
) -> None:
    words = ["--bootstrap-server", server.address(LISTENER)]
    file = config(tmp_path, "OAUTHBEARER", endpoint.url)
    call = ["groups", "list", *words, "--command-config", str(file)]
    assert main(call) == 0
    assert capsys.readouterr().err == "groupkeeper: the cluster has no groups\n"
    endpoint.answers.append((401, b'{"error": "invalid_client"}'))
    assert main(call) == 1
    err = capsys.readouterr().err
    assert f"{endpoint.url} answers 401 (invalid_client)" in err
    assert "check sasl.oauthbearer.* in --config" in err
    endpoint.claims = {"aud": "others"}
    assert main(call) == 1
    endpoint.claims = {}
    err += capsys.readouterr().err
    assert "the broker does not take the token" in err
    assert "check its issuer, audience and scope" in err
    assert SECRET not in err and err.count("groupkeeper: ") == 2
