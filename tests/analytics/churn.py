"""Groups in which much happens, of `tests.weeks`, in one partition: what stored events say can be
held against what is inferred from the offsets log. For tests.
"""

import tempfile
from functools import lru_cache
from pathlib import Path

from groupkeeper.protocol.group_events import Event, decode, encode
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from tests.weeks.shards import DATA, LOGS, make
from tests.weeks.weeks import Size


def told(event: Event) -> tuple[bytes, bytes]:
    """Key and value of the record of an event."""
    return (event.group or "").encode(), encode(event)


@lru_cache
def churn(
    days: float = 0.3, sessions_s: tuple[int, ...] = (600,), every_s: float = 300
) -> tuple[bytes, list[Event]]:
    """The offsets log of eight groups, and their events; few commits, and an incident every half
    hour but for the last four hours. `sessions_s`: session timeouts by chance; `every_s`: seconds
    between two commits.
    """
    size = Size(
        groups=8,
        days=days,
        seed=3,
        partitions=1,
        incidents_a_day=48,
        restarts_a_day=0,
        segment_bytes=1 << 26,
        sessions_s=sessions_s,
        rhythms_s=(every_s,),
    )
    with tempfile.TemporaryDirectory() as folder:
        make(size, Path(folder, "weeks"))
        logs = (Path(folder, "weeks", DATA).glob(f"{name}-0/*.log") for name in LOGS)
        records, events = (b"".join(each.read_bytes() for each in sorted(log)) for log in logs)
    stored = (each for head in iter_batches(events) for each in decode_records(events, head))
    return records, [decode(each.key, each.value) for each in stored if each.value is not None]
