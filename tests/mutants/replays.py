"""The mutants of replays: clients that do not do what clients do, and measures that miss something.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_POLICIES = "tests/analytics/test_what_if_policies.py::"
_SCALING = "tests/coordinator/test_scaling.py::"
_LIVES = "tests/analytics/test_what_if.py::"
CLIENT = "groupkeeper/analytics/what_if/client.py"
REPLAY = "groupkeeper/analytics/what_if/replay.py"
MEASURES = "groupkeeper/analytics/what_if/measures.py"
LIVES = "groupkeeper/analytics/what_if/lives.py"

REPLAY_MUTANTS = (
    Mutant(
        "a process that ends leaves its connection open",
        CLIENT,
        "        self.peer.link.closed = not self.life.is_cut_off\n",
        "",
        (_POLICIES + "test_a_killed_process_need_not_wait_for_its_own_session",),
    ),
    Mutant(
        "a lost node closes connections",
        CLIENT,
        "        self.peer.link.closed = not self.life.is_cut_off\n",
        "        self.peer.link.closed = True\n",
        (_POLICIES + "test_a_host_that_vanished_leaves_its_connection_open",),
    ),
    Mutant(
        "a change of its own counts as a rejoin",
        CLIENT,
        "        if self.generation >= 0 and not changed:\n",
        "        if self.generation >= 0:\n",
        (_POLICIES + "test_rejoins_are_of_members_that_did_nothing",),
    ),
    Mutant(
        "a member that was asked is never at rest",
        REPLAY,
        " or client.member_id in group.asked\n",
        "\n",
        (_POLICIES + "test_a_member_that_was_asked_is_at_rest_again",),
    ),
    Mutant(
        "a kept place keeps the share that it had",
        REPLAY,
        "                    self._measures.plans(member, assigned_in(assignment))\n",
        "                    pass\n",
        (_POLICIES + "test_a_kept_place_has_its_share_in_another_rebalance",),
    ),
    Mutant(
        "idle spares are an imbalance",
        MEASURES,
        "        left = min(self._most or self.running, self.running)\n",
        "        left = self.running\n",
        (_POLICIES + "test_spares_are_meant_to_be_idle",),
    ),
    Mutant(
        "a partition that two clients read hides one that nobody reads",
        MEASURES,
        "            self.none -= self._count[number] == 0\n",
        "            self.none -= 1\n",
        (_POLICIES + "test_a_partition_that_two_clients_have_hides_none_that_nobody_has",),
    ),
    Mutant(
        "a place that was kept in vain ended in an orderly way",
        LIVES,
        ', "seat_expired"),\n',
        "),\n",
        (_LIVES + "test_a_client_whose_place_was_kept_in_vain_ended_with_its_last_request",),
    ),
    Mutant(
        "the timer of a sync outlives whom it waits for",
        "coordinator/rebalance.py",
        "    await_no_sync(group, member, step)  # a removal need not begin another rebalance\n",
        "",
        (
            _POLICIES + "test_no_partition_is_read_by_two_members_that_live",
            _SCALING + "test_nobody_waits_for_the_sync_of_a_member_that_was_lost_before",
        ),
    ),
)
