"""Which commits of transactions count: those whose producer's next marker is a commit marker.

A marker may be in a later piece of the log than the commit. Source: KIP-98, Kafka's
`OffsetMetadataManager.replayEndTransactionMarker`.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading.parse import CONTROL, SCHEMA, TRANSACTIONAL

MOST_PENDING: Final = 200_000
"""So many commits wait for their marker at most; then they are handed out, to be decided later."""
COMMIT_MARKER: Final = b"\0\0\0\1"

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Transactions:
    """The transactions of neighbouring records of one log partition."""

    pending: pa.Table = field(default_factory=SCHEMA.empty_table)
    """Commits whose transaction has no marker so far."""
    ended: set[int] = field(default_factory=set)
    """Producers with a marker in this run: later ones decide nothing in the runs before."""

    def decide(self, more: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Takes commits and markers in the order of the log. Returns the commits of transactions
        that were committed, as plain ones; `traces` of those that were not; and markers that may
        decide commits of earlier runs.

        A commit is decided by the next marker of its producer.
        """
        table = pa.concat_tables([self.pending, more]).combine_chunks()
        producers = table.column("producer_id").to_numpy()
        is_marker = table.column("attributes").to_numpy() & CONTROL != 0
        commits = pc.equal(table.column("key"), COMMIT_MARKER).fill_null(False).to_numpy()
        order = np.argsort(producers, kind="stable")
        count = len(order)
        places = np.where(is_marker[order], np.arange(count), count)
        following = np.minimum.accumulate(places[::-1])[::-1]
        # Behind the last one: a place whose producer is its own, and which is no marker.
        at = np.where(following < count, following, np.arange(count))
        next_marker = np.empty(count, np.int64)
        next_marker[order] = order[at]
        is_decided = is_marker[next_marker] & (producers[next_marker] == producers)
        committed = is_decided & commits[next_marker] & ~is_marker
        aborted = is_decided & ~commits[next_marker] & ~is_marker
        self.pending = table.filter(pa.array(~is_decided))
        first = table.filter(pa.array(self._are_first(producers, is_marker)))
        left = traces(table.filter(pa.array(aborted)))
        return _plain(table.filter(pa.array(committed))), left, first

    def hand_out(self) -> pa.Table:
        """Commits that are not decided. What follows is a run of its own."""
        waiting = self.pending
        self.pending = SCHEMA.empty_table()
        self.ended.clear()
        return waiting

    def _are_first(self, producers: Numbers, is_marker: Mask) -> Mask:
        """Which rows are the first marker of their producer in this run."""
        first = np.zeros(len(producers), np.bool_)
        places = np.flatnonzero(is_marker)
        found, at = np.unique(producers[places], return_index=True)
        for producer, place in zip(found.tolist(), places[at].tolist(), strict=True):
            if producer not in self.ended:
                self.ended.add(producer)
                first[place] = True
        return first


def traces(commits: pa.Table) -> pa.Table:
    """Tombstones of no topic, by which a group is known that has no other commit: to a coordinator
    an aborted commit makes a group, too.
    """
    values = {"topic": None, "topic_partition": None, "tombstone": True}
    for at, field_ in enumerate(SCHEMA):
        if field_.name in values:
            column = pa.array([values[field_.name]] * len(commits), field_.type)
            commits = commits.set_column(at, field_, column)
    return _plain(commits)


def _plain(table: pa.Table) -> pa.Table:
    """The commits without the mark of their transaction, which is decided."""
    at = SCHEMA.get_field_index("attributes")
    cleared = table.column(at).to_numpy() & ~np.int16(TRANSACTIONAL)
    return table.set_column(at, SCHEMA.field(at), pa.array(cleared, pa.int16()))
