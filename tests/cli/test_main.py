"""The command line as a whole: help, version, one line for whatever is wrong."""

import io
import subprocess
import sys

import pytest

from groupkeeper import __version__
from groupkeeper.cli import main
from groupkeeper.cli.app import COMMANDS

Capture = pytest.CaptureFixture[str]


def test_help_names_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits(name: str, capsys: Capture) -> None:
    assert main([name, "-h"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: groupkeeper {name} ")
    assert max(map(len, out.splitlines())) <= 100


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"groupkeeper {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["surve"], "No such command 'surve'"),
        (["serve", "--lisen", "x"], "No such option"),
        (["serve", "extra"], "unexpected extra argument"),
        (["dump"], "Missing argument 'PATH...'"),
        (["dump", "/nowhere/at/all"], "does not exist"),
        (["analyze"], "give a PATH, or a cluster with --bootstrap-server"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    arguments: list[str], problem: str, capsys: Capture
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("groupkeeper: ")
    assert problem in err
    assert err.count("\n") == 1


def test_python_m_groupkeeper_is_the_same_command() -> None:
    command = [sys.executable, "-m", "groupkeeper", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == f"groupkeeper {__version__}\n"


def test_a_locale_that_cannot_show_a_name_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["--version"]) == 0
    print("gr\u00f6\u00dfe", flush=True)
    assert written.getvalue().endswith(b"gr\\xf6\\xdfe\n")


@pytest.mark.parametrize("group", [[], ["groups"]])
def test_the_summary_of_each_command_fits_into_the_list(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*group, "--help"]) == 0
    _, listed = capsys.readouterr().out.split("Commands:\n")
    assert "..." not in listed
