"""Parses segments of `__group_events` into Arrow record batches, by the parser of offsets logs.

The values are not decoded here: they are the JSON of `groupkeeper.protocol.group_events`.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.parse import parse_split
from groupkeeper.analytics.reading.plan import Split

EVENT_COLUMNS: Final = (
    *("partition", "batch_position", "offset", "timestamp_ms", "leader_epoch", "group"),
    *("tombstone", "value", "problem", "problem_bytes"),
)
EVENT_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in EVENT_COLUMNS])


def parse_events(split: Split) -> Iterator[pa.RecordBatch]:
    """One row of EVENT_SCHEMA per record of a split of `__group_events`, from its file.

    The group is that of the key, null for events of the partition itself. Damage is told as in
    offsets logs: rows with a problem. A key that is null or no UTF-8 is one, too.
    """
    return parse_split(split, EVENT_COLUMNS)
