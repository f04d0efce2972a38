"""The account of what is durable in the logs of groups, and what the next process would find.

The account is kept beside the store: every round that `Store.commit` has made durable is entered,
the newest value of each key. At any moment a copy of the disk, with any kind of crash, has to give
the same groups, however often its logs were rolled, compacted and swapped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from groupkeeper.server.server import Server
from groupkeeper.storage.errors import AppendFailed, StorageError
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.queued_log import Append
from groupkeeper.storage.store import Store
from groupkeeper.topics.names import GROUP_TOPIC
from tests.simulation.hard_state import HardState, check_live, of_records, replayed
from tests.support.fake_files import FakeDisk, FakeFiles

ARCHIVE = "data/archive"

Records = dict[bytes, bytes]
"""The newest value of each key that was not deleted."""


class Ledger:
    """The account of one data directory, over all its processes."""

    def __init__(self, names: Iterable[str], limits: Limits) -> None:
        """`names` of the logs; `limits` as the server has them."""
        self._names = tuple(names)
        self._limits = limits
        self._newest: defaultdict[str, Records] = defaultdict(dict)
        self._unsure: Sequence[Append] = ()
        """A round of which only the next process knows whether it is durable."""
        self.live_checks = 0
        """Of active partitions."""

    def watch(self, server: Server) -> None:
        """Enter the rounds of a new process."""
        server.store.commit = self._entering(server.store.commit)  # type: ignore[method-assign]

    def _entering(
        self, commit: Callable[[Sequence[Append]], list[StorageError | None]]
    ) -> Callable[[Sequence[Append]], list[StorageError | None]]:
        def entered(appends: Sequence[Append]) -> list[StorageError | None]:
            assert not self._unsure, "no round follows one that may not be durable"
            self._unsure = appends
            try:
                errors = commit(appends)
            except AppendFailed:
                self._unsure = ()  # nothing of it is in the journal
                raise
            self._unsure = ()
            for append, error in zip(appends, errors, strict=True):
                if error is None:
                    _enter(self._newest[append.log.name], append)
            return errors

        return entered

    # -- what must hold ------------------------------------------------------------------------

    def check(self, disk: FakeDisk, mode: str, seed: int) -> None:
        """A process that starts after such a crash of this disk finds what is durable."""
        found = self._found(disk, mode, seed)
        for name, state in found.items():
            assert state == of_records(self._newest[name]), (name, mode)

    def settle(self, disk: FakeDisk) -> None:
        """After a crash: the round that was being written is there as a whole, or not at all."""
        found = self._found(disk, "kill", 0)
        if any(state != of_records(self._newest[name]) for name, state in found.items()):
            for append in self._unsure:
                _enter(self._newest[append.log.name], append)
        self._unsure = ()
        for name, state in found.items():
            assert state == of_records(self._newest[name]), (name, "after a crash")

    def check_live(self, server: Server) -> None:
        """The active partitions know what is durable, if all that they know is."""
        for driver in server.group_partitions:
            partition = driver._partition
            if not driver.absence and partition.gate.clear:
                check_live(partition, of_records(self._newest[f"{GROUP_TOPIC}-{driver.index}"]))
                self.live_checks += 1

    def _found(self, disk: FakeDisk, mode: str, seed: int) -> dict[str, HardState]:
        copy = disk.copy(leave_out=ARCHIVE)
        if mode != "kill":
            copy.power_cut(mode, seed)
        store = Store(FakeFiles(copy), "data", 0, self._limits)
        for shard in range(store.known_shards()):
            store.claim(shard)
        found = {}
        for name in self._names:
            log = store.recover_log(name)
            found[name] = replayed(log.batches(log.start_offset))
        return found


def _enter(newest: Records, append: Append) -> None:
    for key, value in append.records:
        if value is None:
            newest.pop(key, None)
        else:
            newest[key] = value
