"""`groupkeeper analyze`: the history of groups, from their logs.

The work is done in `groupkeeper.analytics`, whose libraries are the extra `analytics`.
"""

from pathlib import Path
from typing import Any

import click

from groupkeeper.cli.cluster import Cluster
from groupkeeper.cli.options import (
    CONFIG,
    REQUEST_TIMEOUT,
    bootstrap_server,
    json_rows,
    on_command_line,
)
from groupkeeper.cli.progress import ended_in_order
from groupkeeper.cli.why.times import since_option


@click.command(short_help="Report what happened to groups, from their logs.")
@click.argument("paths", nargs=-1, metavar="PATH...")
@bootstrap_server(None, "Read the logs of this cluster over the wire, instead of a PATH.")
@click.option(
    "--out",
    help="Also write tables here, or continue the existing ones: a folder, or s3://bucket/x.",
)
@click.option("--rebuild", is_flag=True, help="Rebuild the tables of --out from scratch.")
@click.option(
    "--csv", type=click.Path(file_okay=False, path_type=Path), help="Also write CSV files here."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write findings, pictures and tables into this HTML page.",
)
@json_rows()
@click.option("--group", "groups", multiple=True, help="Only this group; may be given repeatedly.")
@click.option(
    "--since",
    "since_ms",
    callback=since_option,
    help="Only what happened since 3h, 2d, 03:00 or 2026-11-22T03:00 (UTC).",
)
@click.option(
    "--top", type=click.IntRange(min=1), help="Only the N groups with the most generations."
)
@click.option(
    "--workers", type=click.IntRange(1), help="Processes on this machine; default: cores."
)
@CONFIG
@REQUEST_TIMEOUT
def analyze(
    paths: tuple[str, ...],
    out: str | None,
    groups: tuple[str, ...],
    since_ms: int | None,
    top: int | None,
    **how: Any,
) -> int:
    """Report groups, members, generations and offsets found in logs. With --report, also
    explain what happened to groups, why, and what to change.

    PATH is a data directory or a `__consumer_offsets-N` folder, of Groupkeeper, running or stopped,
    or of an Apache Kafka broker. With --bootstrap-server the logs are read over the wire, of any
    Kafka cluster. The exit code is 1 if a log is damaged.
    """
    from groupkeeper.analytics.command.request import Choice, Request
    from groupkeeper.analytics.errors import AnalyticsError
    from groupkeeper.analytics.libraries import LOCAL, check_libraries, prepare_process

    server, config, timeout = map(how.pop, ("bootstrap_server", "config", "timeout_ms"))
    if paths and not on_command_line("bootstrap_server"):
        server = None
    cluster = Cluster(server, config, timeout, how["as_json"])
    if bool(paths) == bool(cluster.bootstrap):
        raise click.UsageError("give a PATH, or a cluster with --bootstrap-server")
    folder = Path(out) if out and "://" not in out else out
    request = Request(folder, **how, choice=Choice(frozenset(groups), since_ms, top))
    try:
        check_libraries(LOCAL)
    except AnalyticsError as error:
        raise click.ClickException(str(error)) from None
    prepare_process()
    with ended_in_order():
        if cluster.bootstrap:
            from groupkeeper.cli.analyze.cluster import analyze_cluster

            return analyze_cluster(cluster, request)
        from groupkeeper.analytics.command.report import analyze as run

        return run([*paths], request)
