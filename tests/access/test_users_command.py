"""`groupkeeper users`: over the wire, and on a data directory while no server runs."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from groupkeeper.cli import main
from tests.access.record import MODULES
from tests.support.process import Process

PASSWORD = "s3cret-of-the-admin"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command with a line on standard input; returns exit code and both streams."""

    def run(*words: str | Path, says: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(says))
        code = main(["users", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def listed(out: str) -> dict[tuple[str, str], int]:
    rows = [json.loads(line) for line in out.splitlines()]
    return {(row["user"], row["mechanism"]): row["iterations"] for row in rows}


def test_a_first_user_is_made_without_a_server(run: Run, tmp_path: Path) -> None:
    where = "--data-dir", tmp_path / "data"
    assert run("add", "admin", *where, says=f"{PASSWORD}\n") == (0, "", "")
    more = "--mechanism", "SCRAM-SHA-256", "--iterations", "8192"
    assert run("add", "admin", *more, *where, says=PASSWORD)[0] == 0
    code, out, _ = run("list", "--json", *where)
    expected = {("admin", "SCRAM-SHA-512"): 4096, ("admin", "SCRAM-SHA-256"): 8192}
    assert (code, listed(out)) == (0, expected)
    assert run("remove", "admin", "--mechanism", "SCRAM-SHA-256", *where)[0] == 0
    assert listed(run("list", "--json", *where)[1]) == {("admin", "SCRAM-SHA-512"): 4096}
    assert run("remove", "admin", *where)[0] == 0
    assert run("list", "--json", *where)[1] == ""


def test_a_password_comes_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\r\nsecond line\n")
    where = "--data-dir", tmp_path / "data"
    assert run("add", "admin", "--password-file", file, *where)[0] == 0
    assert run("add", "other", "--password-file", "-", *where, says=PASSWORD)[0] == 0


@pytest.mark.parametrize("says", ["", "\n", "x" * 1025, "a\0b"])
def test_a_password_that_cannot_be_is_refused(run: Run, tmp_path: Path, says: str) -> None:
    code, out, err = run("add", "admin", "--data-dir", tmp_path / "data", says=says)
    assert (code, out) == (2, "")
    assert "the password has 1 to 1024 bytes" in err and err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_who_is_not_there_is_not_removed(run: Run, tmp_path: Path) -> None:
    code, _, err = run("remove", "nobody", "--data-dir", tmp_path)
    assert (code, err) == (1, f"groupkeeper: {tmp_path} is no data directory of a server\n")
    run("add", "admin", "--data-dir", tmp_path / "data", says=PASSWORD)
    code, _, err = run("remove", "nobody", "--data-dir", tmp_path / "data")
    assert code == 1 and "user 'nobody' has no SCRAM-SHA-256 or SCRAM-SHA-512" in err


def test_a_directory_and_a_server_exclude_each_other(run: Run, tmp_path: Path) -> None:
    code, _, err = run("list", "--data-dir", tmp_path, "--bootstrap-server", "127.0.0.1:1")
    assert code == 2 and "mutually exclusive" in err


def test_the_first_user_makes_others_through_the_server(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    run("add", "admin", "--data-dir", data, says=PASSWORD)
    settings = (
        *("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"),
        *("--set", "sasl.enabled.mechanisms=SCRAM-SHA-512"),
        *("--set", "offsets.topic.num.partitions=3"),
    )
    words = "--http", "off", "--data-dir", str(data), *settings
    with Process(*words, listen=None, log=tmp_path / "log") as server:
        host, port = server.ready().kafka
        code, _, err = run("list", "--data-dir", data)
        assert code == 1 and "leave out --data-dir" in err
        as_admin = connection(tmp_path, "admin", PASSWORD)
        where = "--bootstrap-server", f"{host}:{port}", "--command-config", as_admin
        assert run("add", "billing", *where, says="another one") == (0, "", "")
        expected = {("admin", "SCRAM-SHA-512"): 4096, ("billing", "SCRAM-SHA-512"): 4096}
        assert listed(run("list", "--json", *where)[1]) == expected
        as_billing = connection(tmp_path, "billing", "another one")
        there = "--bootstrap-server", f"{host}:{port}", "--command-config", as_billing
        assert run("remove", "admin", *there)[0] == 0
        assert run("remove", "admin", *there)[0] == 1
        code, _, err = run("list", "--timeout", "2", *where)
        assert code == 1 and "check the user and the password in --config" in err
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert '"login failed"' in log and "User:admin" in log
    assert PASSWORD not in log and "another one" not in log
    assert "credentials set" in log and "credentials removed" in log


def connection(folder: Path, name: str, password: str) -> Path:
    """A file for clients."""
    path = folder / f"{name}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={MODULES}.scram.ScramLoginModule required "
        f'username="{name}" password="{password}";\n'
    )
    return path


def test_dump_hides_keys(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    run("add", "admin", "--data-dir", data, says=PASSWORD)
    assert main(["dump", str(data / "catalog")]) == 0
    out = capsys.readouterr().out
    assert '"access:user:admin/SCRAM-SHA-512" payload: {"hidden":"keys of a user"}' in out
    assert "stored_key" not in out


def test_a_backup_says_that_it_has_keys(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    run("add", "admin", "--data-dir", data, says=PASSWORD)
    with Process("--http", "off", "--data-dir", str(data), log=tmp_path / "log") as server:
        server.ready()
        assert main(["backup", str(tmp_path / "with"), "--data-dir", str(data)]) == 0
    assert "keep it as safe as the data" in capsys.readouterr().err
    other = tmp_path / "other"
    with Process("--http", "off", "--data-dir", str(other), log=tmp_path / "log") as server:
        server.ready()
        assert main(["backup", str(tmp_path / "without"), "--data-dir", str(other)]) == 0
    assert "keep it as safe" not in capsys.readouterr().err
