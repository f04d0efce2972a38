"""docker/secure.properties, with other ports and paths: a server starts with it, lets the first
administrator in, who lets others in, and nobody else.
"""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupkeeper.cli import main
from tests.support.process import Process

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = (DOCKER / "compose-secure.yaml").read_text(encoding="utf-8")
PASSWORDS = {"admin": "of-the-admin", "billing": "of-billing"}
LOGIN = """\
bootstrap.servers={address}
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
username="{user}" password="{password}";
"""


def words(pattern: str) -> list[str]:
    """The arguments of a command in the comments."""
    found = re.search(pattern, COMPOSE)
    assert found is not None
    return shlex.split(found[1])


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a server that was set up as the comments say."""
    folder = tmp_path / "certificates"
    made = words(r"#   groupkeeper (certs \S+ --host \S+)")
    assert main([made[0], str(folder), made[2], "localhost"]) == 0
    data = tmp_path / "data"
    added = words(r"run --rm server (users add \S+ --data-dir \S+)")
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORDS["admin"]))
    assert main([*added[:-1], str(data)]) == 0
    settings = (DOCKER / "secure.properties").read_text(encoding="utf-8")
    for here, there in (
        ("OUTSIDE://0.0.0.0:9093", "OUTSIDE://localhost:0"),
        ("advertised.listeners=OUTSIDE://kafka.example:9093\n", ""),
        ("/etc/groupkeeper/server.pem", str(folder / "server.pem")),
    ):
        assert here in settings
        settings = settings.replace(here, there)
    file = tmp_path / "server.properties"
    file.write_text(settings, encoding="utf-8")
    options = ("--http", "off", "--data-dir", str(data), "--config", str(file))
    with Process(*options, listen=None, log=tmp_path / "log") as server:
        yield f"localhost:{server.ready().kafka[1]}"


def test_the_settings_let_in_who_belongs(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(user: str, *command: str, password: str | None = None) -> int:
        file = tmp_path / f"{user}.properties"
        authority = tmp_path / "certificates" / "ca.pem"
        login = {"user": user, "password": password or PASSWORDS[user]}
        file.write_text(LOGIN.format(address=address, authority=authority, **login))
        return main([*command, "--command-config", str(file), "--timeout", "20"])

    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORDS["billing"]))
    assert run("admin", "users", "add", "billing") == 0
    assert run("billing", "groups", "list") == 0
    assert run("billing", "users", "list") == 1
    capsys.readouterr()
    assert run("admin", "groups", "list", password="wrong") == 1
    assert "check the user and the password" in capsys.readouterr().err
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert '"denied"' in log and '"login failed"' in log
    assert "other machines" not in log
