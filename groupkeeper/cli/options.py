"""Options that several commands share, each defined once: addresses, timeout, group, JSON.

A value comes from the command line, else from a variable (`GROUPKEEPER_TIMEOUT`), else from the
file of `--config`, else it is the default.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click
from click.core import ParameterSource

from groupkeeper.settings.options import Address, parse_address
from groupkeeper.settings.setting import COMMAND_VARIABLES, ENVIRONMENT_PREFIX

BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
HTTP: Final = "127.0.0.1:9644"
TIMEOUT_S: Final = 30.0
LONGEST_TIMEOUT_S: Final = 3600
_SERVER: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})")

Function = TypeVar("Function", bound=Callable[..., Any])


class Decorator(Protocol):
    """A decorator that adds an option."""

    def __call__(self, function: Function, /) -> Function: ...


# Any: a function whose parameters are collected anew.
def together(*options: Decorator) -> Callable[[Any], Any]:
    """Return a decorator that adds these options, in the order of the help."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def variable(name: str) -> str:
    """Return the variable of an option that commands share; no server takes it for a setting."""
    assert name in COMMAND_VARIABLES, name
    return ENVIRONMENT_PREFIX + name


def shared(*names: str, key: str, **more: Any) -> Decorator:
    """Make an option that has a variable, shown in its help."""
    return click.option(*names, show_default=True, show_envvar=True, envvar=variable(key), **more)


def bootstrap_server(
    default: str | None = BOOTSTRAP_SERVER, text: str = "Bootstrap servers."
) -> Decorator:
    """Make the option of the Kafka cluster to connect to; the value is checked text."""
    return shared(
        "--bootstrap-server",
        key="BOOTSTRAP_SERVER",
        callback=_servers,
        default=default,
        metavar="HOST:PORT,...",
        help=text,
    )


def json_rows(text: str = "One JSON object per row and line.") -> Decorator:
    """Make the option `--json`; the parameter is `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def parsed(text: str, *, any_port: bool = False) -> Address:
    """Parse HOST:PORT of an option. `any_port`: port 0 is allowed. Raises BadParameter."""
    try:
        return parse_address(text, any_port=any_port)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def on_command_line(parameter: str) -> bool:
    """Return whether the value of a parameter of the current command was typed."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _servers(_: object, __: object, text: str | None) -> str | None:
    for each in text.split(",") if text is not None else ():
        found = _SERVER.fullmatch(each.strip())
        if found is None or not 0 < int(found[2]) < 2**16:
            raise click.BadParameter(f"'{each}' is not host:port")
    return text


def _milliseconds(_: object, __: object, seconds: float) -> int:
    if not 0.001 <= seconds <= LONGEST_TIMEOUT_S:  # false for nan, too
        raise click.BadParameter(f"{seconds:g} is not 0.001 to {LONGEST_TIMEOUT_S} seconds")
    return round(seconds * 1000)


def _take_defaults(ctx: click.Context, _: object, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the options that are not given."""
    if path is not None:
        from groupkeeper.client.config import ConfigError, option_defaults

        try:
            ctx.default_map = option_defaults(path)
        except ConfigError as problem:
            raise click.ClickException(str(problem)) from None
    return path


CONFIG: Final = shared(
    "--config",
    "--command-config",
    key="CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    callback=_take_defaults,
    metavar="FILE",
    help="Properties of Kafka's clients, such as bootstrap.servers and security.protocol.",
)
REQUEST_TIMEOUT: Final = shared(
    "--timeout",
    "timeout_ms",
    key="TIMEOUT",
    type=float,
    callback=_milliseconds,
    default=TIMEOUT_S,
    metavar="SECONDS",
    help="Timeout of a request, including its retries, in seconds.",
)
"""The parameter is `timeout_ms`."""
GROUP: Final = click.argument("group", envvar=variable("GROUP"))
