"""A log's lookups by time, in one step."""

from groupkeeper.protocol.record_batch import HEADER_SIZE, read_header, record_times
from groupkeeper.storage.log.log import Log


def offset_for_timestamp(log: Log, timestamp_ms: int) -> tuple[int, int] | None:
    """The first record, of batches that are not compressed, that is not older."""
    for promise in log.promising(timestamp_ms):
        if promise is None:
            continue
        segment, batch = promise
        data = segment.read(batch.position, batch.size)
        for offset, time in record_times(data[HEADER_SIZE:], read_header(data)):
            if time >= timestamp_ms and offset >= log.start_offset:
                return offset, time
    return None
