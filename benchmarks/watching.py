"""`python -m benchmarks.watching`: how fast `__consumer_offsets` is decoded as Fetch returns it.

Prints records for each second of processor time, on one core: of batches with one commit each, as
brokers write them for a consumer that commits, and of batches with several; decoded for
`groupkeeper why`, and folded for `groupkeeper observe`.
"""

import argparse
import time

from groupkeeper.coordinator.records import group_key, offset_key, offset_key_head, offset_value
from groupkeeper.protocol.record_batch import encode_batch, iter_batches, patch
from groupkeeper.protocol.records.consumer_offsets import GroupMetadataValue, encode_value
from groupkeeper.watch.partition import PartitionWatch
from groupkeeper.watch.records import LogReader

START_MS = 1_700_000_000_000
EMPTY = encode_value(GroupMetadataValue(protocol_type="consumer", generation=1), 3)
"""Value of the record of a group without members."""
RESPONSE_BYTES = 1 << 20
"""Size of a response."""


def responses(records: int, in_batch: int, groups: int, offsets: int) -> list[tuple[int, bytes]]:
    """First offset and bytes of each response; every group commits these many offsets in turn."""
    heads = [offset_key_head(f"billing-{n}", "orders") for n in range(groups)]
    keys = [offset_key(head, number) for number in range(offsets) for head in heads]
    found, data, start = [], bytearray(), 0
    for base in range(0, records, in_batch):
        ms = START_MS + base // 10
        some = range(base, base + in_batch)
        values = [(keys[n % len(keys)], offset_value(n, -1, "", ms, -1)) for n in some]
        data += encode_batch(base, 1, ms, values)
        if len(data) >= RESPONSE_BYTES:
            found.append((start, bytes(data)))
            data, start = bytearray(), base + in_batch
    return [*found, (start, bytes(data))]


def rate(some: list[tuple[int, bytes]], group: str | None) -> tuple[int, float]:
    """Return the number of items, and records for each second of processor time."""
    reader, items, began = LogReader(0, group), 0, time.process_time()
    for start, data in some:
        _, found = reader.feed(data, start)
        items += len(found)
    return items, reader.records / (time.process_time() - began)


def folded(some: list[tuple[int, bytes]], groups: int) -> float:
    """Return records for each second of processor time, of an observer that knows all groups."""
    fold = PartitionWatch(0)
    keys = [group_key(f"billing-{number}") for number in range(groups)]
    fold.feed(b"".join(encode_batch(n, 1, START_MS, [(key, EMPTY)]) for n, key in enumerate(keys)))
    shifted = [shift(data, groups) for _, data in some]
    before, began = fold.reader.records, time.process_time()
    for data in shifted:
        fold.feed(data)
    return (fold.reader.records - before) / (time.process_time() - began)


def shift(data: bytes, offsets: int) -> bytes:
    """The batches with larger offsets."""
    heads = iter_batches(data)
    return b"".join(
        patch(data[each.position : each.end], each.base_offset + offsets, 1) for each in heads
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--offsets", type=int, default=6, help="partitions committed by a group")
    options = parser.parse_args()
    print(f"{options.records} commits of {options.groups} groups")
    for in_batch in (1, 6, 50):
        some = responses(options.records, in_batch, options.groups, options.offsets)
        for group in (None, "billing-7"):
            items, speed = rate(some, group)
            who = "all groups" if group is None else "one group "
            print(f"{in_batch:3} in a batch, {who}: {speed:10,.0f} records/s, {items:8} items")
        speed = folded(some, options.groups)
        print(f"{in_batch:3} in a batch, folded    : {speed:10,.0f} records/s")


if __name__ == "__main__":
    main()
