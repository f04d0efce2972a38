"""Shared parts of commands that connect to a cluster: options, client, and error handling.

A refusal or a failure is one line on standard error and exit code 1; an HTTP port given as a node
is a usage error.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from groupkeeper.cli import FAILED

if TYPE_CHECKING:
    from groupkeeper.client import Client

BOOTSTRAP_SERVER = "127.0.0.1:9092"
TIMEOUT_MS = 30_000

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})")
_ADVICE = (
    ("SaslAuthenticationFailed", "check the user and the password in --command-config"),
    ("SSL", "check security.protocol and the certificates in --command-config"),
    ("closed", "it may require TLS or a login: set them in --command-config"),
    ("", "start one, or name another with --bootstrap-server"),
)
"""Advice by fragment of aiokafka's message about a connection."""

_HTTP_ADVICE = (
    "answers HTTP: give the Kafka port; Groupkeeper has Kafka at 9092 and HTTP at 9644 by default, "
    "and prints the actual ports when it is ready"
)

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class Cluster:
    """The cluster to connect to, and how results are shown."""

    bootstrap: str
    config: Path | None
    timeout_ms: int
    as_json: bool

    def run(self, work: "Callable[[Client], Coroutine[Any, Any, int | None]]") -> int:
        """Connect, do the work, and return the exit code."""
        from groupkeeper.client import CallFailed, NotKafka
        from groupkeeper.client.config import ConfigError
        from groupkeeper.protocol.errors import ErrorCode

        log = _ClientLog()
        try:
            return asyncio.run(self._run(work)) or 0
        except CallFailed as failure:
            if failure.api == "Metadata" and failure.node is None:
                print(f"groupkeeper: {self._unreachable(log.last)}", file=sys.stderr)
            else:
                why = f": {log.last}" if failure.error is ErrorCode.BROKER_NOT_AVAILABLE else ""
                print(f"groupkeeper: {failure}{why}", file=sys.stderr)
        except NotKafka as problem:
            raise click.ClickException(f"--bootstrap-server: {problem} {_HTTP_ADVICE}") from None
        except ConfigError as problem:
            raise click.ClickException(str(problem)) from problem
        return FAILED

    async def _run(self, work: "Callable[[Client], Coroutine[Any, Any, int | None]]") -> int | None:
        from groupkeeper.client import Client
        from groupkeeper.client.config import read_config

        config = read_config(self.config) if self.config else {}
        client = Client(self.bootstrap, request_timeout_ms=self.timeout_ms, **config)
        async with client:
            return await work(client)

    def _unreachable(self, log: str) -> str:
        """Describe the problem and what to do, from the last log message."""
        why = log.partition('": ')[2] or f"nothing within {self.timeout_ms} ms"
        advice = next(advice for fragment, advice in _ADVICE if fragment in why)
        return f"no Kafka node answers at {self.bootstrap} ({why}): {advice}"


class _ClientLog(logging.Handler):
    """Keeps aiokafka's last log message about connections, which its exceptions lack."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        log = logging.getLogger("aiokafka")
        log.handlers, log.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


def with_options(collected: Any, *options: Callable[[Any], Any]) -> Any:
    """Return a function that takes these options, in the order of the help."""
    for option in reversed(options):
        collected = option(collected)
    return collected


def cluster_options(function: Function) -> Function:
    """Add the options of every command that connects to a cluster, as its parameter `cluster`."""

    @wraps(function)
    def collected(
        *arguments: Any,
        bootstrap_server: str,
        command_config: Path | None,
        timeout: int,
        as_json: bool,
        **more: Any,
    ) -> Any:
        cluster = Cluster(bootstrap_server, command_config, timeout, as_json)
        return function(*arguments, cluster=cluster, **more)

    found: Function = with_options(collected, _BOOTSTRAP, *_CONNECTION, _JSON)
    return found


def connection_options(function: Function) -> Function:
    """Add the connection options of a command that may connect to a cluster."""
    found: Function = with_options(function, *_CONNECTION)
    return found


def addresses(_: object, __: object, text: str | None) -> str | None:
    """Validate the bootstrap servers, for click."""
    for each in text.split(",") if text is not None else ():
        found = _ADDRESS.fullmatch(each.strip())
        if found is None or not 0 < int(found[2]) < 2**16:
            raise click.BadParameter(f"'{each}' is not host:port")
    return text


_BOOTSTRAP = click.option(
    "--bootstrap-server",
    callback=addresses,
    default=BOOTSTRAP_SERVER,
    show_default=True,
    metavar="HOST:PORT,...",
    help="Bootstrap servers.",
)
_CONNECTION = (
    click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Properties of Kafka's clients: security.protocol, sasl.*, ssl.*, client.id.",
    ),
    click.option(
        "--timeout",
        type=click.IntRange(min=1),
        default=TIMEOUT_MS,
        show_default=True,
        metavar="MS",
        help="Timeout of a request, including its retries.",
    ),
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object per row and line.")
