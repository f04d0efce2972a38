"""Groups that commit once and never again, some of which are deleted afterwards.

The groups of all other clients commit all the time, so the newest record of each of their keys is
in a segment that no compaction has reached yet. An offset that is committed once is rewritten by
every compaction of its log, and has to be there after all of them. A deleted group must not come
back when its tombstones are gone.
"""

import threading
from random import Random

from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.chaos.wire import Client
from tests.kills.crowd import PARTITIONS, PLACES, Connected, expect_none
from tests.kills.ledger import Ledger
from tests.support.requests import codes_of, commit_request
from tests.support.wire import Address

ONCE = "once-"
"""How the names of these groups begin."""
DELETED = 0.15
"""Chance that a group is deleted rather than that another one commits."""
PAUSE_SECONDS = 0.005
FULL_PAUSE_SECONDS = 0.25
"""Between requests once there are enough groups: most of them are left alone to the end."""


class Once(Connected):
    """Lets one group after the other commit for the first and last time.

    `still` is held by a check of all groups: meanwhile no group is made or deleted, so any group
    that the ledger does not know should not be there.
    """

    def __init__(self, most: int, seed: int, address: Address, ledger: Ledger) -> None:
        """`most`: how many groups there are at a time."""
        super().__init__("once", "", address, ledger)
        self.still = threading.Lock()
        self.deleted = 0
        self._kept: list[str] = []
        self._most = most
        self._chance = Random(seed)

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= self._most

    def act(self, client: Client) -> None:
        with self.still:
            if self.is_full or (self._kept and self._chance.random() < DELETED):
                self._delete(client)
            else:
                self._commit(client)
        self.over.wait(FULL_PAUSE_SECONDS if self.is_full else PAUSE_SECONDS)

    def _commit(self, client: Client) -> None:
        number = next(self._numbers)
        group_id = f"{ONCE}{number}"
        offsets = dict.fromkeys(PLACES[: 1 + number % PARTITIONS], number)
        self.ledger.sends(group_id, offsets)
        expect_none(codes_of(client.call(7, commit_request(offsets, group_id))).values())
        self.ledger.commits(self.name, group_id, offsets, bounded=True)
        self._kept.append(group_id)

    def _delete(self, client: Client) -> None:
        group_id = self._kept.pop(self._chance.randrange(len(self._kept)))
        self.ledger.gives_up(group_id)
        [result] = client.call(2, DeleteGroupsRequest(groups_names=[group_id])).results
        expect_none([result.error_code])
        self.ledger.deletes(group_id)
        self.deleted += 1
