"""`groupkeeper analyze`: the Spark job over offsets logs.

Only the way in; the work is done in `groupkeeper.analytics`, whose libraries are an extra.
"""

from importlib.util import find_spec
from pathlib import Path

import click

LIBRARIES = ("pyspark", "pyarrow", "pandas", "numba")


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH...",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Write Parquet files here, too."
)
def analyze(paths: tuple[Path, ...], out: Path | None) -> int:
    """Report groups, members, generations and offsets found in logs.

    PATH is a data directory, or a `__consumer_offsets-N` folder: ours, while the server is up or
    down, or one of an Apache Kafka broker.
    """
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"analyze needs {', '.join(missing)}: pip install 'groupkeeper[analytics]'"
        )
    from groupkeeper.analytics.report import analyze as run

    return run([*paths], out)
