"""Connects a command to a cluster: options together, client, and error handling.

A refusal or a failure is one line on standard error and exit code 1; an HTTP port given as a node
is a usage error.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.options import (
    CONFIG,
    REQUEST_TIMEOUT,
    Function,
    bootstrap_server,
    json_rows,
    together,
)

if TYPE_CHECKING:
    from groupkeeper.client import CallFailed, Client

_ADVICE = (
    ("NoToken", "check sasl.oauthbearer.* in --config, or the issuer of tokens"),
    ("does not take the token", "check its issuer, audience and scope"),
    ("SaslAuthenticationFailed", "check the user and the password in --config"),
    ("SSL", "check security.protocol and the certificates in --config"),
    ("closed", "it may require TLS or a login: set them in --config"),
    ("", "start one, or name another with --bootstrap-server"),
)
"""Advice by fragment of aiokafka's message about a connection."""

_RIGHTS = {
    "AlterUserScramCredentials": "ALTER on the cluster",
    "DeleteGroups": "DELETE on the group",
    "DescribeConfigs": "DESCRIBE_CONFIGS on the group",
    "DescribeGroups": "DESCRIBE on the group",
    "DescribeUserScramCredentials": "DESCRIBE on the cluster",
    "Fetch": "READ on the topic",
    "FindCoordinator": "DESCRIBE on the group",
    "IncrementalAlterConfigs": "ALTER_CONFIGS on the group",
    "LeaveGroup": "READ on the group",
    "ListOffsets": "DESCRIBE on the topic",
    "OffsetFetch": "DESCRIBE on the group",
}
"""The right that a request of a command needs, by its API; docs/security.md has all."""

_HTTP_ADVICE = (
    "answers HTTP: give the Kafka port; Groupkeeper has Kafka at 9092 and HTTP at 9644 by default, "
    "and prints the actual ports when it is ready"
)


@dataclass(slots=True, frozen=True)
class Cluster:
    """The cluster to connect to, and how results are shown."""

    bootstrap: str
    config: Path | None
    timeout_ms: int
    as_json: bool

    def run(
        self,
        work: "Callable[[Client], Coroutine[Any, Any, int | None]]",
        loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> int:
        """Connect, do the work, and return the exit code. `loop` makes the event loop."""
        from groupkeeper.client import CallFailed, NotKafka
        from groupkeeper.client.client import NOT_YET
        from groupkeeper.client.config import ConfigError
        from groupkeeper.protocol.errors import ErrorCode

        log = _ClientLog()
        try:
            with asyncio.Runner(loop_factory=loop) as runner:
                return runner.run(self._run(work)) or 0
        except CallFailed as failure:
            is_there = failure.__cause__ is None and failure.error not in NOT_YET
            if failure.api == "Metadata" and failure.node is None and not is_there:
                # aiokafka before 0.13 raises what it logs later on.
                told = log.last or f'": {failure.__cause__ or ""}'
                print(f"groupkeeper: {self._unreachable(told)}", file=sys.stderr)
            else:
                why = f": {log.last}" if failure.error is ErrorCode.BROKER_NOT_AVAILABLE else ""
                print(f"groupkeeper: {failure}{why}{_grant(failure)}", file=sys.stderr)
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


def _grant(failure: "CallFailed") -> str:
    """Return what to grant, as the end of a line; empty if no right is missing."""
    right = _RIGHTS.get(failure.api)
    if right is None or not failure.error.name.endswith("_AUTHORIZATION_FAILED"):
        return ""
    return f": grant this user {right}"


class _ClientLog(logging.Handler):
    """Keeps aiokafka's last log message about connections, which its exceptions lack."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        log = logging.getLogger("aiokafka")
        log.handlers, log.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


def cluster_options(function: Function) -> Function:
    """Add the options of every command that connects to a cluster, as its parameter `cluster`."""

    @wraps(function)
    def collected(
        *arguments: Any,
        bootstrap_server: str,
        config: Path | None,
        timeout_ms: int,
        as_json: bool,
        **more: Any,
    ) -> Any:
        cluster = Cluster(bootstrap_server, config, timeout_ms, as_json)
        return function(*arguments, cluster=cluster, **more)

    found: Function = together(bootstrap_server(), CONFIG, REQUEST_TIMEOUT, json_rows())(collected)
    return found
