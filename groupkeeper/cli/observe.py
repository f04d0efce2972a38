"""`groupkeeper observe`: infers and keeps why groups of any Kafka cluster rebalance."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupkeeper.cli.cluster import Cluster
from groupkeeper.cli.options import (
    CONFIG,
    HTTP,
    REQUEST_TIMEOUT,
    bootstrap_server,
    parsed,
    together,
)
from groupkeeper.settings.options import Address

if TYPE_CHECKING:
    from groupkeeper.client import Client

DATA_DIR = Path("groupkeeper-observer")


def _address(_ctx: click.Context, _param: click.Parameter, text: str) -> Address:
    return parsed(text, any_port=True)


@click.command(short_help="Observe another Kafka cluster, and keep why its groups rebalance.")
@together(bootstrap_server(), CONFIG, REQUEST_TIMEOUT)
@click.option(
    "--data",
    "data_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="Directory for the events and the state of this observer.",
)
@click.option(
    "--http",
    callback=_address,
    metavar="HOST:PORT",
    default=HTTP,
    show_default=True,
    help="Address of the page, the JSON API and /metrics.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the HTTP port, such as http.tokens.file=FILE or http.tls=true. Repeatable.",
)
@click.option(
    "--ask/--no-ask",
    default=True,
    show_default=True,
    help="Ask coordinators which groups are in a rebalance, and leaders where logs end.",
)
def observe(
    bootstrap_server: str,
    config: Path | None,
    timeout_ms: int,
    assignments: tuple[str, ...],
    **more: Any,  # of ObserveOptions
) -> int:
    """Observe a Kafka cluster until interrupted: read its topic `__consumer_offsets`, infer why
    groups rebalance, and keep that.

    The cluster is only read: nothing is committed, no group is joined, and no group is changed. A
    user with READ on the topic `__consumer_offsets` is enough; with DESCRIBE on groups and topics
    rebalances under way and the lag are shown, too. What happened is served as a Groupkeeper
    server serves it: as a page, as JSON under /api/v1, and as metrics.

    Causes are inferred from what members committed and from the assignments that were stored, and
    each says how sure it is; docs/observe.md says what can be known and what cannot.

    \b
      groupkeeper observe --bootstrap-server kafka:9092
      groupkeeper observe --data /var/lib/observer --command-config reader.properties
      groupkeeper observe --http 0.0.0.0:9644 --set http.tokens.file=tokens
      curl http://127.0.0.1:9644/api/v1/groups/billing/why

    Prints one line on standard output when ready, with the actual address. Logs go to standard
    error. A kill loses nothing: the next start reads on where the last one was.
    """
    from groupkeeper.settings.table import SettingsError
    from groupkeeper.watch.main import ObserverProcess
    from groupkeeper.watch.main import observe as run
    from groupkeeper.watch.options import ObserveOptions
    from groupkeeper.watch.settings import observer_settings

    try:
        settings, unused = observer_settings(os.environ, assignments)
    except SettingsError as problem:
        raise click.ClickException(str(problem)) from None
    options = ObserveOptions(bootstrap_server, settings=settings, unused_keys=unused, **more)
    process = ObserverProcess()

    async def work(client: "Client") -> int:
        with left_to_read() as show:
            return await run(client, options, process, show)

    cluster = Cluster(bootstrap_server, config, timeout_ms, as_json=False)
    return cluster.run(work, lambda: process.loop)


@contextmanager
def left_to_read() -> Iterator[Callable[[int], None]]:
    """Show how many records are left to read in a line on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        *(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # the ready line is not to be wrapped
        redirect_stderr=False,
    )
    task = bar.add_task("", total=None)

    def show(left: int) -> None:
        if not left:
            bar.stop()
            return
        bar.start()
        bar.update(task, description=f"{left:,} records of __consumer_offsets are left to read")

    try:
        yield show
    finally:
        bar.stop()
