"""Runs the shards of a size, each in a process, and puts their logs into one data directory.

A shard runs the groups of every so many-th partition of `__consumer_offsets` on a server of its
own, so no log has two writers. What comes out depends on the seed and on the number of shards.
"""

import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tests.weeks import truth
from tests.weeks.quiet import Tables, add_quiet, factor_for
from tests.weeks.weeks import Size, Weeks, quiet

DATA: Final = "data"
LOGS: Final = ("__consumer_offsets", "__group_events")

Progress = Callable[[float], None]


def make(size: Size, out: Path, records: int = 0, progress: Progress = lambda days: None) -> Tables:
    """Make the data directory and the truth in a folder; returns the truth.

    With `records`, commits of quiet times are added until the offsets logs have so many records, or
    a little more.
    """
    parts = [out / f"shard-{shard}" for shard in range(size.shards)]
    sizes = [replace(size, shard=shard) for shard in range(size.shards)]
    if size.shards == 1:
        found = [_shard(sizes[0], parts[0], progress)]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(size.shards, mp_context=context) as pool:
            found = list(pool.map(_shard, sizes, parts))
    factor = factor_for(parts, records) if records else 0
    for shard, (part, tables) in enumerate(zip(parts, found, strict=True)):
        _gather(replace(size, shard=shard), part, out / DATA, tables, factor)
        shutil.rmtree(part)
    whole = {name: [row for tables in found for row in tables[name]] for name in found[0]}
    requests = sum(row["count"] for row in whole.pop("requests"))
    about = {"size": asdict(size), "quiet_factor": factor, "requests": requests}
    truth.write(out, whole, {**about, "added_batches_have_metadata": "quiet"})
    return whole


def _shard(size: Size, folder: Path, progress: Progress = lambda days: None) -> Tables:
    weeks = Weeks(size, folder)
    with quiet():
        weeks.run(progress)
    tables = weeks.scribe.tables()
    for row in tables["coordinators"]:
        row["shard"] = size.shard
    return tables


def _gather(size: Size, part: Path, data: Path, tables: Tables, factor: int) -> None:
    """Move the logs of a shard into the data directory."""
    data.mkdir(parents=True, exist_ok=True)
    for number in range(size.shard, size.partitions, size.shards):
        for name in LOGS:
            folder = part / f"{name}-{number}"
            if not folder.exists():
                continue
            if name == LOGS[0] and factor:
                to = data / folder.name
                add_quiet(folder, to, tables, factor, size.segment_bytes, size.transactional)
            else:
                folder.rename(data / folder.name)
