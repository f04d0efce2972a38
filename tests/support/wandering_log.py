"""The random records of `wandering_records` as the bytes of a log, one batch each step."""

from collections.abc import Sequence

from groupkeeper.coordinator.records import group_key, offset_key, offset_key_head, offset_value
from groupkeeper.history.coverage import Span
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch
from tests.support.wandering_records import wander


def wandering_log(
    seed: int, steps: int, groups: tuple[str, ...] = ("billing", "audit")
) -> list[bytes]:
    """Return the batches of a log of these groups."""
    found: list[bytes] = []
    items: list[Fed] = []
    for each in wander(seed, steps, groups):
        if isinstance(each, Span):
            found.append(_batch(each, items))
            items = []
        else:
            items.append(each)
    return found


def _batch(span: Span, items: Sequence[Fed]) -> bytes:
    records: list[TimedRecord] = []
    for each in items:
        if isinstance(each, GroupRecord):
            records.append(TimedRecord(each.time_ms, group_key(each.group), each.value))
        elif isinstance(each, CommitRun):
            key = offset_key(offset_key_head(each.group, each.topic), each.partition)
            times = each.first_ms, each.first_ms + each.longest_ms, each.last_ms
            value = offset_value(7, -1, "", times[0], -1)
            records += [TimedRecord(ms, key, value) for ms in times]
    assert len(records) == span.records, "as the span says"
    return encode_timed_batch(span.first_offset, span.leader_epoch or 0, records)
