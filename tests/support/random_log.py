"""Random logs with all that a compaction has to do with: transactions, tombstones, codecs, gaps."""

from random import Random

from tests.support.raw_batches import ABORT, COMMIT, TIME, Kind, Written, marker, raw_batch

KEYS = [b"\x00\x01key-%d" % number for number in range(12)] + [b"\x00\x63unknown type", b""]
PRODUCERS = (4000, 4001, 4002)
_HEADERS = [("trace", b"id"), ("empty", None)]


class RandomLog:
    """Writes batches one after the other; `random` decides everything."""

    def __init__(self, random: Random, next_offset: int = 0) -> None:
        self.random = random
        self.next_offset = next_offset
        self.open: dict[int, int] = {}
        """Producer id to the first offset of its open transaction."""
        self._epochs = dict.fromkeys(PRODUCERS, 0)
        self._time = TIME

    @property
    def stable_offset(self) -> int:
        """Where the first open transaction begins, or the end."""
        return min(self.open.values(), default=self.next_offset)

    def batches(self, count: int) -> list[bytes]:
        return [self._batch() for _ in range(count)]

    def end_transactions(self) -> list[bytes]:
        """The markers of all open transactions."""
        return [self._marker(producer_id) for producer_id in list(self.open)]

    def _batch(self) -> bytes:
        random = self.random
        self._time += random.choice((0, 1, 1_000, 60_000))
        if random.random() < 0.1:
            self.next_offset += random.randrange(3)
        roll = random.random()
        if roll < 0.25:
            return self._data(random.choice(PRODUCERS), transactional=True)
        if roll < 0.42:
            return self._marker(random.choice([*self.open] or PRODUCERS))
        if roll < 0.5 and len(self.open) < len(PRODUCERS):
            free = [each for each in PRODUCERS if each not in self.open]
            return self._data(random.choice(free), transactional=False)
        return self._data(-1, transactional=False)

    def _data(self, producer_id: int, *, transactional: bool) -> bytes:
        random = self.random
        if transactional:
            self.open.setdefault(producer_id, self.next_offset)
        epoch = self._epochs.get(producer_id, -1)
        kind = Kind(
            codec=random.choice((0, 0, 0, 1, 2, 3, 4)),
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=-1 if producer_id < 0 else random.randrange(100),
            transactional=transactional,
            append_time=self._time + 5 if random.random() < 0.15 else None,
            leader_epoch=self.next_offset // 40,
            trailing_gap=random.choice((0, 0, 0, 0, 2)),
        )
        return self._take([self._record() for _ in range(random.choice((1, 1, 1, 2, 5)))], kind)

    def _record(self) -> Written:
        random = self.random
        key = None if random.random() < 0.05 else random.choice(KEYS)
        value = None if random.random() < 0.3 else random.randbytes(random.choice((0, 3, 70)))
        headers = _HEADERS if random.random() < 0.2 else ()
        time = -1 if random.random() < 0.03 else self._time + random.randrange(-50, 50)
        return Written(key, value, time, headers, random.choice((0, 0, 0, 0, 1)))

    def _take(self, records: list[Written], kind: Kind) -> bytes:
        batch = raw_batch(self.next_offset, records, kind)
        self.next_offset += sum(1 + each.gap for each in records) + kind.trailing_gap
        return batch

    def _marker(self, producer_id: int) -> bytes:
        self.open.pop(producer_id, None)
        if self.random.random() < 0.3:  # as newer coordinators do (KIP-890)
            self._epochs[producer_id] += 1
        epoch = self._epochs[producer_id]
        key = self.random.choice((COMMIT, COMMIT, ABORT))
        batch = marker(
            self.next_offset,
            producer_id,
            key,
            producer_epoch=epoch,
            time=self._time,
            leader_epoch=self.next_offset // 40,
        )
        self.next_offset += 1
        return batch
