"""DescribeUserScramCredentials and AlterUserScramCredentials, as on Apache Kafka 4.1."""

import json
from collections.abc import Iterator

import pytest

from groupkeeper.apis import user_credentials
from groupkeeper.apis.user_credentials import SALT_LENGTH
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.access.secured import PLAINTEXT, Secured
from tests.access.user_requests import (
    REQUESTS,
    USERS_RECORDED,
    alter,
    describe,
    played,
    removing,
    rows,
    setting,
)
from tests.support.served import Lines, Served
from tests.support.wire import connect

KAFKAS = json.loads(USERS_RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    with (
        Secured(tmp_path_factory.mktemp("users"), users=("carol",)) as server,
        connect(("127.0.0.1", server.ports[PLAINTEXT])) as client,
    ):
        yield played(lambda request: client.call(0, request))


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_is_kafkas(told: dict[str, list[str]], name: str) -> None:
    assert told[name] == KAFKAS[name]


def test_users_are_there_after_a_crash(served: Served) -> None:
    client = served.client()
    client.call(0, alter(setting("u1"), setting("u2", 2)))
    client.call(0, alter(removing("u2", 2)))
    served.restart()
    assert rows(served.client().call(0, describe(all_users=True))) == ["error 0", "u1 0 - 1:4096"]


def test_nothing_is_changed_if_the_disk_fails(served: Served) -> None:
    client = served.client()
    served.disk.capacity = 0
    answer = client.call(0, alter(setting("u1"), setting("", 1)))
    codes = {each.user: each.error_code for each in answer.results}
    assert codes == {"u1": ErrorCode.UNKNOWN_SERVER_ERROR, "": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert rows(client.call(0, describe("u1")))[1].startswith("u1 91 ")


def test_what_is_too_long_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    long = setting("u1")
    long.salt = bytes(SALT_LENGTH + 1)
    client = served.client()
    answer = client.call(0, alter(long, setting("n" * 1025)))
    assert {each.error_code for each in answer.results} == {ErrorCode.UNACCEPTABLE_CREDENTIAL}
    monkeypatch.setattr(user_credentials, "ENTRIES_MOST", 1)
    assert rows(client.call(0, alter(setting("u1")))) == ["error 0", "u1 0 -"]
    assert rows(client.call(0, alter(setting("u2"))))[1].startswith("u2 44 ")
    assert rows(client.call(0, alter(setting("u1")))) == ["error 0", "u1 0 -"]  # no new entry


def test_a_request_shows_no_secret() -> None:
    row = ScramCredentialUpsertion(name="u1", salted_password=b"derived-secret", salt=b"the-salt")
    shown = repr(alter(row)) + repr(SaslAuthenticateRequest(auth_bytes=b"a-secret"))
    assert "u1" in shown and "secret" not in shown and "the-salt" not in shown


def test_lines_name_users_and_no_keys(served: Served, lines: Lines) -> None:
    client = served.client()
    client.call(0, alter(*(setting(f"u{number}") for number in range(7)), removing("u0")))
    told = [line for line in lines() if line["logger"] == "access"]
    [line] = told
    assert line["event"] == "credentials set" and line["count"] == 6
    assert line["changes"].startswith("u1 SCRAM-SHA-256; ") and line["changes"].endswith("; ...")
    assert (line["principal"], line["client"]) == ("User:ANONYMOUS", "/127.0.0.1")
    assert "derived" not in json.dumps(told)
