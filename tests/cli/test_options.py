"""Options that commands share: the same everywhere, and from where a value comes."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from groupkeeper.cli import main
from groupkeeper.cli.app import EXIT_CODES, command
from groupkeeper.cli.http_port import HttpTarget, http_options
from groupkeeper.cli.options import CONFIG, REQUEST_TIMEOUT, bootstrap_server
from groupkeeper.settings.setting import COMMAND_VARIABLES, ENVIRONMENT_PREFIX
from groupkeeper.settings.table import Settings, load

Capture = pytest.CaptureFixture[str]
VARIABLES = {ENVIRONMENT_PREFIX + name for name in COMMAND_VARIABLES}
SHARED = {"--bootstrap-server", "--config", "--http-ca", "--http-token-file", "--timeout"}


def commands(of: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, of
    if isinstance(of, click.Group):
        for name in of.list_commands(click.Context(of)):
            found = of.get_command(click.Context(of), name)
            assert found is not None
            yield from commands(found, f"{path} {name}")


def test_shared_options_have_one_form_and_variable() -> None:
    forms: dict[str, set[object]] = {}
    seen = set()
    for path, each in commands(command, "groupkeeper"):
        for parameter in each.params:
            seen |= {parameter.envvar} if isinstance(parameter.envvar, str) else set()
            for name in SHARED & {*parameter.opts} if path != "groupkeeper serve" else ():
                assert isinstance(parameter, click.Option)
                forms.setdefault(name, set()).add((parameter.metavar, parameter.type.name))
    assert seen == VARIABLES
    assert {name: len(some) for name, some in forms.items()} == dict.fromkeys(SHARED, 1)


def test_help_ends_with_the_exit_codes(capsys: Capture) -> None:
    for words in (["why"], ["groups", "list"], ["dump"], ["repair"], ["analyze"]):
        assert main([*words, "--help"]) == 0
        assert " ".join(capsys.readouterr().out.split()).endswith(EXIT_CODES), words


@click.command()
@bootstrap_server()
@http_options(None, "")
@CONFIG
@REQUEST_TIMEOUT
def shown(**given: object) -> None:
    http = given["http"]
    assert isinstance(http, HttpTarget)
    print(given["bootstrap_server"], http.address, given["timeout_ms"])


def test_a_value_is_from_the_line_else_a_variable_else_the_file(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(*words: str) -> str:
        shown.main([*words], standalone_mode=False)
        return capsys.readouterr().out.strip()

    assert show() == "127.0.0.1:9092 None 30000"
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1,b:2\ndefault.api.timeout.ms=1500\nhttp=h:3\nacks=1\n")
    for option in "--config", "--command-config":
        assert show(option, str(file)) == "a:1,b:2 ('h', 3) 1500"
    monkeypatch.setenv("GROUPKEEPER_CONFIG", str(file))
    monkeypatch.setenv("GROUPKEEPER_TIMEOUT", "2.5")
    assert show() == "a:1,b:2 ('h', 3) 2500"
    assert show("--timeout", "0.2", "--bootstrap-server", "c:1") == "c:1 ('h', 3) 200"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("default.api.timeout.ms", "-1"),
        ("default.api.timeout.ms", "soon"),
        ("default.api.timeout.ms", "3600001"),
        ("bootstrap.servers", "a"),
        ("http", "h"),
        ("http", "ftp://h:1"),
        ("http", "https://h"),
        ("http", "off"),
        ("http.ca", "/nowhere"),
        ("http.token.file", "/nowhere"),
    ],
)
def test_a_wrong_value_of_the_file_is_a_wrong_call(key: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{key}={value}\n")
    with pytest.raises(click.ClickException):
        shown.main(["--config", str(file)], standalone_mode=False)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "30000", "x"])
def test_a_timeout_is_in_seconds_and_bounded(text: str) -> None:
    with pytest.raises(click.BadParameter):
        shown.main(["--timeout", text], standalone_mode=False)


def test_variables_of_commands_are_no_settings_of_a_server() -> None:
    assert load(environment=dict.fromkeys(VARIABLES, "x")) == (Settings(), ())


def test_what_is_typed_replaces_a_variable_that_excludes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setenv("GROUPKEEPER_GROUP", "billing")
    monkeypatch.setenv("GROUPKEEPER_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert main(["groups", "describe", "--all-groups"]) == 1
    assert "no Kafka node answers at 127.0.0.1:1" in capsys.readouterr().err
    for words in (["describe", "--group", "g", "--all-groups"], ["delete"], ["remove-members"]):
        assert main(["groups", *words]) == 2, "nothing is deleted because of a variable"
        assert "one of --group" in capsys.readouterr().err
    assert main(["why"]) == 1
    assert "no Kafka node answers at 127.0.0.1:1" in capsys.readouterr().err
    assert main(["analyze", str(tmp_path)]) == 2
    assert "PATH" not in capsys.readouterr().err
