"""`groupkeeper analyze`: the Spark job over offsets logs.

The work is done in `groupkeeper.analytics`, whose libraries are the extra `analytics`.
"""

from pathlib import Path

import click


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Also write Parquet files here."
)
@click.option("--partition", type=click.IntRange(0), help="Of segments in no partition folder.")
@click.option("--master", help="Where Spark runs: spark://host:7077, local[4].")
def analyze(
    paths: tuple[str, ...], out: Path | None, partition: int | None, master: str | None
) -> int:
    """Report groups, members, generations and offsets found in logs.

    PATH is a data directory or a `__consumer_offsets-N` folder, of Groupkeeper, running or stopped,
    or of an Apache Kafka broker. Exit code 3: a log is damaged.
    """
    from groupkeeper.analytics.report import analyze as run

    return run([*paths], out, partition=partition, master=master)
