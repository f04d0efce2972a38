"""`groupkeeper tokens`: the file of the HTTP port's tokens."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groupkeeper.access.http_tokens import find_token, read_token_file
from groupkeeper.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; returns exit code and both streams."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main(["tokens", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_printed_once_and_only_its_hash_is_kept(run: Run, file: Path) -> None:
    code, out, err = run("add", "ops", "--role", "write", "--file", file)
    assert (code, err) == (0, f"groupkeeper: keep this token: {file} has only its hash\n")
    token = out.removesuffix("\n")
    assert token not in file.read_text()
    found = find_token(read_token_file(file).tokens, token)
    assert found is not None
    assert (found.name, found.role) == ("ops", "write")
    assert file.stat().st_mode & 0o137 == 0


def test_roles_read_unless_told_otherwise(run: Run, file: Path) -> None:
    run("add", "ops", "--role", "write", "--file", file)
    run("add", "board", "--file", file)
    code, out, _ = run("list", "--file", file)
    assert code == 0
    assert out.split() == ["TOKEN", "ROLE", "board", "read", "ops", "write"]
    rows = [json.loads(line) for line in run("list", "--json", "--file", file)[1].splitlines()]
    assert rows == [{"token": "board", "role": "read"}, {"token": "ops", "role": "write"}]


def test_other_lines_and_rights_of_the_file_stay(run: Run, file: Path) -> None:
    run("add", "ops", "--file", file)
    file.write_text(f"# people\n\n{file.read_text().strip()}")
    file.chmod(0o600)
    run("add", "ops.2", "--file", file)
    assert run("remove", "ops", "--file", file) == (0, "", "")
    lines = file.read_text().splitlines()
    assert lines[:2] == ["# people", ""]
    assert len(lines) == 3 and lines[2].startswith("ops.2 read sha256:")
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["tokens"]


def test_what_is_refused(run: Run, file: Path) -> None:
    run("add", "ops", "--file", file)
    before = file.read_text()
    for words, code, told in (
        (("add", "ops"), 1, "has a token 'ops': remove it, or choose another name"),
        (("add", "a b"), 2, "'a b' is no name"),
        (("add", "-", "--role", "admin"), 2, "'admin' is not one of"),
        (("remove", "nobody"), 1, "has no token 'nobody': it has ops"),
    ):
        found, out, err = run(*words, "--file", file)
        assert (found, out) == (code, "")
        assert told in err
    assert file.read_text() == before
    assert run("add", "ops")[0] == 2, "the file has to be named"
    assert run("list", "--file", file.with_name("none"))[0] == 1


def test_a_bad_file_is_not_changed(run: Run, file: Path) -> None:
    file.write_text("ops write secret\n")
    code, out, err = run("add", "board", "--file", file)
    assert (code, out, err) == (1, "", f"groupkeeper: {file}: line 1 is not NAME ROLE sha256:HEX\n")
    assert file.read_text() == "ops write secret\n"
    assert os.listdir(file.parent) == ["tokens"]


def test_one_command_changes_it_at_a_time(run: Run, file: Path) -> None:
    file.with_name("tokens.new").touch()
    code, _, err = run("add", "board", "--file", file)
    assert code == 1 and "another command changes the tokens, or was killed" in err
    assert not file.exists()


def test_a_link_stays_one(run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file.symlink_to(tmp_path / "real" / "tokens")
    assert run("add", "ops", "--file", file)[0] == 0
    assert file.is_symlink() and (tmp_path / "real" / "tokens").exists()
