"""`groupkeeper serve`: reads options and settings, then runs the server.

All of this happens before the port is open, so imports are kept to a minimum.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from groupkeeper.cli.options import HTTP, parsed
from groupkeeper.settings.listeners import LISTENERS, Given, listeners_of, without_effect
from groupkeeper.settings.options import (
    MEMORY,
    Address,
    SecurityProtocol,
    ServeOptions,
    format_address,
)
from groupkeeper.settings.sasl_settings import SaslSettingError, sasl_of
from groupkeeper.settings.setting import INT_MAX
from groupkeeper.settings.table import Settings, SettingsError, load

DATA_DIR = Path("groupkeeper-data")
LISTEN = ("127.0.0.1", 9092)
CONTROL = "127.0.0.1:9645"
GROUPS = "offsets.topic.num.partitions"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Hosts that the control port may have."""


def _address(_ctx: click.Context, param: click.Parameter, text: str | None) -> Address | None:
    """Parse HOST:PORT, as a callback of options; None without the option, or for `off`."""
    if text is None or (text == "off" and param.name == "http"):
        return None
    return parsed(text, any_port=param.name != "advertise")


def _topics(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """Parse `NAME:PARTITIONS`, or `NAME` for one partition."""
    if not given:
        return {}
    from groupkeeper.topics.names import check_name

    topics: dict[str, int] = {}
    for text in given:
        name, colon, count = text.partition(":")
        partitions = int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0
        if check_name(name) is not None or (colon and not partitions):
            raise click.BadParameter(f"{text!r} is not NAME:PARTITIONS, such as orders:6")
        topics[name] = partitions or 1
    return topics


@click.command()
@click.option(
    "--listen",
    callback=_address,
    metavar="HOST:PORT",
    help="Address for Kafka clients. Port 0 takes any free one.  [default: the setting "
    "listeners, or 127.0.0.1:9092]",
)
@click.option(
    "--advertise",
    callback=_address,
    metavar="HOST:PORT",
    help="The address that clients connect to, if different from --listen.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"The data directory.  [default: {DATA_DIR}; with --dev a temporary directory]",
)
@click.option(
    "--memory",
    is_flag=True,
    help="Keep everything in memory: the disk is not touched, and nothing survives.",
)
@click.option(
    "--http",
    callback=_address,
    metavar="HOST:PORT|off",
    default=HTTP,
    show_default=True,
    help="Address of /metrics, /healthz, /readyz and the JSON API.",
)
@click.option(
    "--node-id", type=click.IntRange(0, INT_MAX), help="[default: the setting node.id, 0]"
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings in Java's properties syntax; a broker's server.properties is fine.",
)
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="One setting. Repeatable."
)
@click.option(
    "--dev",
    is_flag=True,
    help="For development: groups form at once, short sessions are allowed, data is temporary.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="With --dev: serve TLS on the port of --listen, with certificates that are made in the "
    "data directory. Needs the package cryptography.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=_topics,
    metavar="NAME:PARTITIONS",
    help="Create a topic unless it exists. Repeatable.",
)
@click.option(
    "--control",
    is_flag=False,
    flag_value=CONTROL,
    callback=_address,
    metavar="[HOST:PORT]",
    help="With --dev: let tests control time, faults, crashes and more over HTTP on this loopback "
    f"port, {CONTROL} unless given. Data is in memory unless --data-dir is given.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 16),
    default=1,
    help="With --control: run this many nodes, on consecutive ports from --listen's.",
)
@click.option(
    "--as-version",
    type=click.Choice(("2.8", "3.9", "4.1")),
    help="With --control: support the API versions of this Kafka release.",
)
def serve(
    data_dir: Path | None,
    config: Path | None,
    assignments: tuple[str, ...],
    dev: bool,
    memory: bool,
    **given: Any,
) -> int:
    """Run a server until it is interrupted.

    Prints one line on standard output when ready, with the actual addresses. Logs go to
    standard error. Settings carry Kafka's own names; see docs/configuration.md. Later wins:
    defaults, --config, environment (GROUPKEEPER_GROUP_MAX_SIZE=500), --set.

    \b
      groupkeeper serve --data-dir /var/lib/groupkeeper
      groupkeeper serve --dev --listen 127.0.0.1:0 --set num.partitions=6
      groupkeeper serve --dev --memory
      groupkeeper serve --dev --tls
      groupkeeper serve --dev --control --topic orders:6
      groupkeeper serve --listen 0.0.0.0:9092 --advertise kafka.example:9092
    """
    # Any: click's own values of the options left, each converted by its type above.
    try:
        settings, unused = load(config, os.environ, assignments, dev=dev)
        if given["brokers"] > 1 and GROUPS not in settings.given:
            more = (*assignments, f"{GROUPS}={given['brokers']}")
            settings, unused = load(config, os.environ, more, dev=dev)
    except SettingsError as problem:
        raise click.ClickException(str(problem)) from None
    _check_control(dev, **given)
    _check_tls(dev, memory, settings, **given)
    memory = memory or (given["control"] is not None and data_dir is None)
    if memory:
        _check_memory(data_dir, settings)
        data_dir = MEMORY
    with _data_dir(data_dir, temporary=dev) as folder:
        options = _options(folder, settings, unused, given)
        options.dev, options.memory = dev, memory
        if given["control"] is not None:
            from groupkeeper.testing.control import process

            return process.run(options, given["control"], given["brokers"], given["as_version"])
        from groupkeeper.server.lean_imports import import_lean, no_collections

        with no_collections(free=options.has_tls):
            import_lean()
            from groupkeeper.server.main import run

        return run(options)


# Any: see serve().
def _check_control(
    dev: bool, control: Address | None, brokers: int, as_version: str | None, **_: Any
) -> None:
    if control is None:
        for name, is_given in (("--brokers", brokers > 1), ("--as-version", as_version)):
            if is_given:
                raise click.ClickException(f"{name} is for tests: it requires --dev --control")
        return
    if not dev:
        raise click.ClickException("--control is for tests: it requires --dev")
    if control[0] not in LOOPBACK:
        raise click.ClickException(
            f"--control {format_address(control)}: anyone who can reach the control port can do "
            f"anything with the broker: give a port of {' or '.join(LOOPBACK)}"
        )


def _check_memory(data_dir: Path | None, settings: Settings) -> None:
    if data_dir is not None:
        raise click.ClickException("--memory and --data-dir are mutually exclusive: leave one out")
    if settings.data_dir_must_exist:
        raise click.ClickException(
            "--memory starts without data, but data.dir.must.exist requires some: leave one out"
        )


# Any: see serve().
def _check_tls(
    dev: bool, memory: bool, settings: Settings, tls: bool, control: Address | None, **_: Any
) -> None:
    if not tls:
        return
    if not dev:
        raise click.ClickException(
            "--tls is for development: it requires --dev; see docs/security.md for other servers"
        )
    if memory or control is not None:
        name = "--memory" if memory else "--control"
        raise click.ClickException(
            f"--tls and {name} are mutually exclusive: certificates are in the data directory"
        )
    if LISTENERS in settings.given:
        raise click.ClickException(
            f"--tls and {LISTENERS} are mutually exclusive: name a listener SSL instead"
        )


# Any: see serve().
def _options(
    data_dir: Path, settings: Settings, unused: tuple[str, ...], given: dict[str, Any]
) -> ServeOptions:
    protocol = SecurityProtocol.SSL if given["tls"] else SecurityProtocol.PLAINTEXT
    addresses = Given(given["listen"], given["advertise"], protocol)
    if given["tls"]:
        from groupkeeper.cli.certs import with_own_certificates

        settings = with_own_certificates(settings, data_dir)
    try:
        listeners = listeners_of(settings, addresses, LISTEN)
        for each in listeners:
            if each.protocol.has_sasl:
                sasl_of(settings, each.name)  # checked here, and read when the server starts
    except (SettingsError, SaslSettingError) as problem:
        raise click.ClickException(str(problem)) from None
    if given["brokers"] > 1 and (given["node_id"] or listeners[1:] or listeners[0].advertised):
        raise click.ClickException(
            "--brokers numbers the nodes from 0 and requires one unadvertised listener: "
            "leave out --node-id, --advertise and further listeners"
        )
    return ServeOptions(
        data_dir=data_dir,
        listeners=listeners,
        http=given["http"],
        node_id=settings.node_id if given["node_id"] is None else given["node_id"],
        settings=settings,
        topics=given["topics"],
        unused_keys=(*unused, *without_effect(settings, addresses, listeners)),
    )


@contextmanager
def _data_dir(named: Path | None, *, temporary: bool) -> Iterator[Path]:
    """Yield the data directory; without --data-dir, that of `--dev` is deleted at the end."""
    if named is not None or not temporary:
        yield named or DATA_DIR
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="groupkeeper-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
