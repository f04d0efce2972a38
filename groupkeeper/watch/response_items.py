"""The items of one response to a Fetch of `__consumer_offsets`, while its records are decoded."""

from operator import itemgetter

from groupkeeper.history.coverage import Span
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.protocol.record_batch import Record
from groupkeeper.watch.commit_heads import CommitPlace


class ResponseItems:
    """The items of one response."""

    def __init__(self) -> None:
        self.newest: dict[CommitPlace, bytes | None] = {}
        self.runs: dict[bytes | None, _Run] = {}
        """Runs that may go on, by the key of their commits."""
        self._of_group: dict[str, list[bytes | None]] = {}
        """Group -> keys in `runs`."""
        self._records: list[GroupRecord] = []
        self._ended: list[CommitRun] = []
        self._spans: list[Span] = []
        self._epoch: int | None = None
        """Leader epoch of the last span."""
        self._last: Record | None = None
        self._more = 0
        """Last record, and number, of those that are to be added to the last span."""

    def begin(
        self, key: bytes | None, place: CommitPlace, offset: int, ms: int, epoch: int
    ) -> None:
        """Begin a run with its first commit."""
        self.runs[key] = _Run(place, offset, ms, epoch)
        self._of_group.setdefault(place[0], []).append(key)

    def add(self, record: GroupRecord) -> None:
        """Add a record about a group, which ends its runs: members may own other partitions."""
        self._records.append(record)
        for key in self._of_group.pop(record.group, ()):
            self._ended.append(self.runs.pop(key).ended())

    def end_runs(self) -> None:
        """End all runs: another leader writes, and members could not commit before it did."""
        self._ended += (each.ended() for each in self.runs.values())
        self.runs.clear()
        self._of_group.clear()

    def covers(self, epoch: int, last: Record, records: int) -> bool:
        """Add records without a gap to the last span; False if that is of another epoch."""
        if epoch != self._epoch:
            return False
        self._last, self._more = last, self._more + records
        return True

    def cover(self, span: Span) -> None:
        """Add a span, joined to the last one if that is of the same epoch."""
        self._end_span()
        epoch = -1 if span.leader_epoch is None else span.leader_epoch
        if epoch != self._epoch:
            self.end_runs()
        self._epoch = epoch
        last = self._spans[-1] if self._spans else None
        if last is None or last.leader_epoch != span.leader_epoch:
            self._spans.append(span)
            return
        self._spans[-1] = span._replace(
            first_offset=last.first_offset,
            first_ms=last.first_ms,
            records=last.records + span.records,
        )

    def _end_span(self) -> None:
        """Add the records of `covers` to the last span."""
        if self._last is not None:
            span, last = self._spans[-1], self._last
            self._spans[-1] = span._replace(
                last_offset=last.offset,
                last_ms=last.timestamp_ms,
                records=span.records + self._more,
            )
        self._last, self._more = None, 0

    def in_order(self) -> list[Fed]:
        """Return all items by their first offset; a record comes before a span that it begins."""
        self._end_span()
        runs = (*self._ended, *(each.ended() for each in self.runs.values()))
        return sorted((*self._records, *runs, *self._spans), key=itemgetter(0))


class _Run:
    """A `CommitRun` that may go on."""

    __slots__ = (
        *("_commits", "_epoch", "_first_ms", "_first_offset", "_last_ms", "_last_offset"),
        *("_latest_ms", "_longest_ms", "place"),
    )

    def __init__(self, place: CommitPlace, offset: int, ms: int, epoch: int) -> None:
        self.place, self._commits, self._longest_ms, self._epoch = place, 1, 0, epoch
        self._first_offset = self._last_offset = offset
        self._first_ms = self._last_ms = self._latest_ms = ms

    def add(self, offset: int, ms: int) -> None:
        """Add the next commit."""
        pause = ms - self._last_ms
        self._last_offset, self._last_ms = offset, ms
        self._commits += 1
        self._longest_ms = max(self._longest_ms, pause)
        if ms > self._latest_ms:
            self._latest_ms = ms
        elif ms < self._first_ms:
            self._first_ms = ms

    def ended(self) -> CommitRun:
        """Return the run."""
        group, topic, partition = self.place
        first_ms, last_ms = self._first_ms, self._latest_ms
        about = self._commits, self._longest_ms, self._epoch
        first, last = self._first_offset, self._last_offset
        return CommitRun(first, last, group, topic, partition, first_ms, last_ms, *about)
