"""Tokens of clients: from an endpoint or a file, kept, replaced; what is told without one."""

import asyncio
import json
import ssl
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupkeeper.client.config import ConfigError, read_config
from groupkeeper.client.oauth import (
    ANSWER_BYTES,
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    PAUSE_MOST_S,
    NoToken,
    Token,
    TokenSource,
    token_in,
)
from tests.access import tokens
from tests.support.certificates import Certificates
from tests.support.token_endpoint import CLIENT_ID as ID
from tests.support.token_endpoint import SECRET, TokenEndpoint

HEAD = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
OF_CLIENT = f"{CLIENT_ID}={ID}\n{CLIENT_SECRET}={SECRET}\n"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def source_of(file: Path, text: str) -> TokenSource:
    file.write_text(HEAD + text)
    found = read_config(file)["sasl_oauth_token_provider"]
    assert isinstance(found, TokenSource)
    return found


async def refused(source: TokenSource) -> str:
    """Why there is no token."""
    with pytest.raises(NoToken) as raised:
        await source.token()
    assert SECRET not in str(raised.value) and "\n" not in str(raised.value)
    assert source.problem == raised.value.args[0]
    return source.problem


# -- the endpoint ----------------------------------------------------------------------------------


async def test_the_endpoint_gets_id_and_secret(endpoint: TokenEndpoint, file: Path) -> None:
    source = source_of(file, f"{ENDPOINT}={endpoint.url}\n{OF_CLIENT}")
    found = await source.token()
    assert found.count(".") == 2
    [(authorization, form)] = endpoint.asked
    scheme, _, login = authorization.partition(" ")
    assert (scheme, b64decode(login).decode()) == ("Basic", f"{ID}:{SECRET}")
    assert form == {"grant_type": ["client_credentials"]}
    assert await source.token() == found, "it is kept"
    assert len(endpoint.asked) == 1


async def test_older_clients_have_them_in_the_jaas_config(
    endpoint: TokenEndpoint, file: Path
) -> None:
    options = f'clientId="{ID}" clientSecret="{SECRET}" scope="groups read"'
    more = (
        f"sasl.jaas.config={MODULE} {options};\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        "sasl.login.connect.timeout.ms=15000\n"
    )
    await source_of(file, f"{ENDPOINT}={endpoint.url}\n{more}").token()
    [(authorization, form)] = endpoint.asked
    assert b64decode(authorization.split()[1]).decode() == f"{ID}:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["groups read"]}


async def test_a_scope_and_encoded_names(endpoint: TokenEndpoint, file: Path) -> None:
    more = f"sasl.oauthbearer.scope=a b\nsasl.oauthbearer.header.urlencode=true\n{CLIENT_ID}=a:b\n"
    await source_of(file, f"{ENDPOINT}={endpoint.url}\n{OF_CLIENT}{more}").token()
    [(authorization, form)] = endpoint.asked
    assert b64decode(authorization.split()[1]).decode() == f"a%3Ab:{SECRET}"
    assert form["scope"] == ["a b"]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error": "invalid_client", "error_description": "%s"}', "401 (invalid_client)"),
        (400, b'{"error": "what? %s"}', " answers 400"),
        (500, b"<html>%s</html>", " answers 500"),
        (302, b"", " answers 302"),
        (200, b"{}", " has no token"),
        (200, b"[1]", " has no token"),
        (200, b'{"access_token": "a b"}', " has no token"),
        (200, b'{"access_token": "%s\\u0001"}', " has no token"),
        (200, b"{" * 100_000, " has no token"),
        (200, b"x" * (ANSWER_BYTES + 1), " has no token"),
    ],
)
async def test_what_an_endpoint_says_instead_is_told_without_secrets(
    status: int, body: bytes, told: str, endpoint: TokenEndpoint, file: Path
) -> None:
    endpoint.answers.append((status, body.replace(b"%s", SECRET.encode())))
    source = source_of(file, f"{ENDPOINT}={endpoint.url}\n{OF_CLIENT}")
    problem = await refused(source)
    assert problem.startswith(endpoint.url) and problem.endswith(told)


async def test_an_endpoint_that_is_not_there_is_told_without_its_password(file: Path) -> None:
    source = source_of(file, f"{ENDPOINT}=http://me:{SECRET}@127.0.0.1:1/token\n{OF_CLIENT}")
    assert (await refused(source)).startswith("http://127.0.0.1:1/token: ")


async def test_the_certificate_of_an_endpoint_is_verified(tmp_path: Path, file: Path) -> None:
    made = Certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.server)
    with TokenEndpoint(context) as endpoint:
        base = f"{ENDPOINT}={endpoint.url}\n{OF_CLIENT}"
        problem = await refused(source_of(file, base))
        assert "its certificate is not trusted (" in problem
        assert "ssl.truststore.location" in problem and not endpoint.asked
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={made.ca}\n"
        assert await source_of(file, base + trust).token()


# -- a file ----------------------------------------------------------------------------------------


async def test_a_file_is_read_for_each_login(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "a token"
    path.write_text(f"{tokens.good()}\n")
    source = source_of(file, f"{ENDPOINT}={path.as_uri()}\n")
    before = await source.token()
    path.write_text(tokens.signed(sub="other"))
    after = await source.token()
    assert before != after == path.read_text()
    path.unlink()
    assert await source.token() == after, "it is valid still"
    assert source.problem == f"{path}: No such file or directory"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no token"),
        ("two words", "has no token"),
        ("é", "has no token"),
        (tokens.KINDS["expired"], "has a token that has expired"),
    ],
)
async def test_a_file_without_a_token_is_told(
    text: object, told: str, tmp_path: Path, file: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(text() if callable(text) else str(text))
    source = source_of(file, f"{ENDPOINT}={path.as_uri()}\n")
    assert await refused(source) == f"{path} {told}"


def test_the_lifetime_of_a_token_is_in_its_claims(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(tokens.signed(exp=int(time.time()) + 60))
    found = token_in(path)
    assert found.lifetime_s is not None and 50 < found.lifetime_s <= 60
    assert found.text not in repr(found)
    path.write_text("opaque")
    assert token_in(path) == Token("opaque", None)


# -- kept, and replaced ----------------------------------------------------------------------------


class Issuer:
    """Gives numbered tokens, or fails, and has the time."""

    def __init__(self) -> None:
        self.now, self.asked, self.fails = 1000.0, 0, False
        self.lifetime_s: float | None = 100.0

    def fetch(self) -> Token:
        self.asked += 1
        if self.fails:
            raise NoToken(f"failure {self.asked}")
        return Token(f"token-{self.asked}", self.lifetime_s)

    def source(self) -> TokenSource:
        return TokenSource(self.fetch, seconds=lambda: self.now)


async def test_a_token_is_replaced_after_most_of_its_lifetime() -> None:
    issuer = Issuer()
    source = issuer.source()
    assert await source.token() == "token-1"
    issuer.now += 79
    assert await source.token() == "token-1"
    issuer.now += 2
    assert await source.token() == "token-2"


async def test_a_token_is_used_to_its_end_while_there_is_no_other() -> None:
    issuer = Issuer()
    source = issuer.source()
    await source.token()
    issuer.now, issuer.fails = issuer.now + 90, True
    assert (await source.token(), source.problem) == ("token-1", "failure 2")
    issuer.now += 20
    assert await refused(source) == "failure 3"
    issuer.now, issuer.fails = issuer.now + PAUSE_MOST_S, False
    assert (await source.token(), source.problem) == ("token-4", "")


async def test_failures_are_retried_ever_more_rarely() -> None:
    issuer = Issuer()
    issuer.fails = True
    source = issuer.source()
    for _ in range(1000):
        await refused(source)
        issuer.now += 0.1
    assert 10 <= issuer.asked <= 20


async def test_one_request_is_enough_for_all_connections() -> None:
    issuer = Issuer()
    source = issuer.source()
    assert await asyncio.gather(*(source.token() for _ in range(5))) == ["token-1"] * 5
    assert issuer.asked == 1


async def test_a_token_without_a_known_end_is_fetched_for_each_login() -> None:
    issuer = Issuer()
    issuer.lifetime_s = None
    source = issuer.source()
    assert [await source.token() for _ in range(2)] == ["token-1", "token-2"]


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", f"OAUTHBEARER needs {ENDPOINT}: give https://..., or file:///path"),
        (f"{ENDPOINT}=ftp://h/token\n", f"OAUTHBEARER needs {ENDPOINT}"),
        (f"{ENDPOINT}=https:///token\n", f"OAUTHBEARER needs {ENDPOINT}"),
        (f"{ENDPOINT}=https://h/token\n", f"OAUTHBEARER needs {CLIENT_ID} and {CLIENT_SECRET}, or"),
        (f"{ENDPOINT}=https://h/token\n{CLIENT_ID}=a\n", f"OAUTHBEARER needs {CLIENT_ID} and"),
        (
            "sasl.oauthbearer.jwt.retriever.class=a.JwtBearerJwtRetriever\n",
            "is not supported but for DefaultJwtRetriever, ClientCredentialsJwtRetriever, FileJwt",
        ),
        ("sasl.login.callback.handler.class=com.example.Own\n", "is not supported but for OAuth"),
        ("sasl.oauthbearer.assertion.file=/a\n", "is not supported: remove it"),
    ],
)
def test_what_cannot_be_used_is_one_line(text: str, told: str, file: Path) -> None:
    file.write_text(HEAD + text)
    with pytest.raises(ConfigError) as raised:
        read_config(file)
    assert str(raised.value).startswith(f"{file}: ") and told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_answer_may_have_no_lifetime_and_no_claims(endpoint: TokenEndpoint, file: Path) -> None:
    endpoint.answers.append((200, json.dumps({"access_token": "opaque"}).encode()))
    source = source_of(file, f"{ENDPOINT}={endpoint.url}\n{OF_CLIENT}")
    assert asyncio.run(source.token()) == "opaque"
