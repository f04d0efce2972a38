"""Which clients the suite `secure` plays, in which ways, and which leak it finds."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.suites.checks import UnmetError
from tests.suites.secure import CASES, CLIENTS, Secure
from tests.suites.secure_server import ADMIN, BY_CERTIFICATE, BY_PASSWORD, BY_TOKEN, SecureServer
from tests.truth.foreign import FRANZ_GO, JAVA, KAFKAJS


def test_every_client_gets_in_by_password_and_by_certificate() -> None:
    ways = defaultdict(list)
    for client, way in CASES:
        ways[client.name].append(way)
    assert len(ways) == len(CLIENTS) == 8
    for each in ways.values():
        assert each[:2] == [BY_PASSWORD, BY_CERTIFICATE]
    for client in (JAVA, FRANZ_GO):
        assert BY_TOKEN in ways[client.name]


def test_only_kafkajs_has_no_static_members() -> None:
    suite = Secure()
    title = f"{BY_PASSWORD.name}: a static member is restarted without a rebalance"
    known = [each.name for each in CLIENTS if suite.reason(f"{each.name}, {title}")]
    assert known == [KAFKAJS.name]


def test_a_secret_in_a_file_of_the_suite_is_found(tmp_path: Path) -> None:
    server = SecureServer(tmp_path)
    server.check_secrets()
    token = server.token()
    place = tmp_path / "client" / "run.log"
    place.parent.mkdir()
    place.write_text(f"{server.passwords[ADMIN]} {token}")
    with pytest.raises(UnmetError, match=r"^client/run.log: password of admin, token 1$"):
        server.check_secrets()
