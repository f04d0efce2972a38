"""The mutants of reserved seats: a partition with two owners, or with none, or a seat that is lost.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_SEATS = "tests/coordinator/test_seats.py::"
_CRASHES = "tests/coordinator/test_seat_crashes.py::"
_UNPLACED = "tests/coordinator/test_unplaced.py::"
_LIVES = "tests/seats/test_lives.py::test_no_partition_is_assigned_twice_and_no_seat_is_lost[0]"

STATIC_JOIN = "coordinator/static_join.py"
GROUP = "coordinator/group.py"
REBALANCE = "coordinator/rebalance.py"
SEATS = "coordinator/seats.py"

SEAT_MUTANTS = (
    # -- taken
    Mutant(
        "seat taken before its record is durable",
        "coordinator/gate.py",
        "        elif step.replies or facts:\n",
        "        elif facts and type(facts[-1].fact).__name__ != 'MemberReplaced':\n",
        (_SEATS + "test_a_seat_is_told_when_its_record_is_durable_and_taken_when_the_new_one_is",),
    ),
    Mutant(
        "seat taken without a record",
        STATIC_JOIN,
        "    write_group(group, record, step)\n",
        "",
        (_SEATS + "test_a_seat_that_was_taken_is_none_after_a_crash", _LIVES),
    ),
    Mutant(
        "seat given to two newcomers",
        GROUP,
        "        self._free(old_id)\n",
        "        if old_id in self.seats:\n"
        "            self.seats[new_id] = self.seats.pop(old_id)\n",
        (_SEATS + "test_a_seat_that_was_taken_is_none_after_a_crash", _LIVES),
    ),
    Mutant(
        "old id of a seat accepted",
        "coordinator/replies.py",
        "    if holder not in group.members or holder in group.seats:\n",
        "    if holder not in group.members:\n",
        (_SEATS + "test_the_old_process_is_unknown_and_cannot_commit", _LIVES),
    ),
    Mutant(
        "record of a seat that was taken is not deleted",
        REBALANCE,
        "        step.append(seat_key(group.group_id, member_id), None)\n",
        "        pass\n",
        (_CRASHES + "test_the_record_of_a_seat_goes_with_the_record_of_the_one_that_takes_it",),
    ),
    Mutant(
        "record of a seat deleted before the plan",
        STATIC_JOIN,
        "    step.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, old_id))\n",
        "    from groupkeeper.coordinator.records import seat_key\n"
        "    step.append(seat_key(group.group_id, old_id), None)\n"
        "    step.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, old_id))\n",
        (
            _CRASHES
            + "test_a_seat_that_was_taken_in_a_rebalance_is_back_after_a_crash_before_the_plan",
            _LIVES,
        ),
    ),
    Mutant(
        "place of a member with an open connection taken",
        SEATS,
        "    if member is None or member.peer is None or not member.peer.link.closed:\n",
        "    if member is None or member.peer is None:\n",
        (_SEATS + "test_a_client_beside_one_whose_connection_is_open_is_a_new_member",),
    ),
    Mutant(
        "place of one of two clients with one name taken",
        "coordinator/soft_state.py",
        "return next(iter(found)) if len(found) == 1 else None",
        "return next(iter(found)) if found else None",
        (_SEATS + "test_of_two_members_with_one_name_none_is_taken_for_the_other", _LIVES),
    ),
    # -- rebalances
    Mutant(
        "seat elected as leader",
        "coordinator/standby.py",
        "    return member.awaiting_join is not None and member.member_id not in group.standbys\n",
        "    return member.member_id not in group.standbys\n",
        (_SEATS + "test_a_seat_is_never_asked_to_lead", _LIVES),
    ),
    Mutant(
        "join phase waits for a seat",
        GROUP,
        "return self.joined_count + len(self.seats) == len(self.members) and",
        "return self.joined_count == len(self.members) and",
        (_SEATS + "test_a_rebalance_does_not_wait_for_a_seat_and_the_leader_assigns_to_it",),
    ),
    Mutant(
        "seat removed as late",
        REBALANCE,
        "            and member.member_id not in group.seats\n",
        "",
        (_SEATS + "test_a_seat_is_not_removed_with_members_that_do_not_rejoin", _LIVES),
    ),
    Mutant(
        "partitions of a seat not told",
        REBALANCE,
        "    tell_for_seats(group)\n",
        "",
        (_SEATS + "test_the_leader_is_told_what_a_seat_holds_now",),
    ),
    Mutant(
        "no second round after a plan that took from a seat",
        "coordinator/sync.py",
        "    if revoked:\n",
        "    if revoked < 0:\n",
        (
            _SEATS + "test_partitions_that_a_cooperative_plan_takes_from_a_seat_find_an_owner",
            _LIVES,
        ),
    ),
    Mutant(
        "no second round for a member that is lost between two",
        SEATS,
        "    if revoked:\n",
        "    if revoked < 0:\n",
        (_UNPLACED + "test_what_was_taken_from_a_member_that_is_lost_finds_an_owner", _LIVES),
    ),
    Mutant(
        "no second round for a member that is replaced between two",
        STATIC_JOIN,
        "(unplaced(group, member) or is_too_large(group)):\n",
        "is_too_large(group):\n",
        (_UNPLACED + "test_what_was_taken_from_a_member_that_is_back_at_once_finds_an_owner",),
    ),
    # -- loads
    Mutant(
        "seat forgotten on replay",
        "coordinator/replay.py",
        "            group.seats = added(group.seats, key.member, seat)\n",
        "            assert seat\n",
        (_SEATS + "test_a_seat_survives_a_crash_with_what_is_left_of_its_time", _LIVES),
    ),
    Mutant(
        "session of a seat started after a load",
        "coordinator/session_start.py",
        "                if member.member_id not in group.seats:\n",
        "                if member is not None:\n",
        (_SEATS + "test_a_seat_survives_a_crash_with_what_is_left_of_its_time", _LIVES),
    ),
    Mutant(
        "seat that is alone after a load kept",
        SEATS,
        "    if first.ends_ms > step.now and not group.is_deserted:",
        "    if first.ends_ms > step.now:",
        (_CRASHES + "test_a_seat_that_is_alone_after_a_load_ends_if_nobody_comes",),
    ),
    Mutant(
        "seat taken for a membership that was given up",
        "coordinator/prolong.py",
        "is_gone = is_gone or member.member_id in group.seats",
        "is_gone = is_gone",
        (_CRASHES + "test_a_client_that_joins_otherwise_after_a_load_gives_no_seat_a_session",),
    ),
)
