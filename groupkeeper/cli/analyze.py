"""`groupkeeper analyze`: the Spark job over offsets logs.

The work is done in `groupkeeper.analytics`, whose libraries are the extra `analytics`.
"""

from pathlib import Path

import click


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH...",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Also write Parquet files here."
)
def analyze(paths: tuple[Path, ...], out: Path | None) -> int:
    """Report groups, members, generations and offsets found in logs.

    PATH is a data directory or a `__consumer_offsets-N` folder, of Groupkeeper, running or stopped,
    or of an Apache Kafka broker.
    """
    from groupkeeper.analytics.report import analyze as run

    return run([*paths], out)
