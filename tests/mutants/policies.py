"""The mutants of policies that decide which members get partitions: a partition with two owners, or
with none, or members that are asked for ever.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_SCALING = "tests/coordinator/test_scaling.py::"
_STEPS = "tests/coordinator/test_steps.py::"
_ASKS = "tests/coordinator/test_asks.py::"
_FAULTS = "tests/coordinator/test_policy_faults.py::"
_LIVES = "tests/seats/test_lives.py::test_no_partition_is_assigned_twice_with_any_policies[0]"

SCALING = "coordinator/scaling.py"
STANDBY = "coordinator/standby.py"
STEPS = "coordinator/steps.py"
SYNC = "coordinator/sync.py"

POLICY_MUTANTS = (
    # -- steps
    Mutant(
        "recipient given before the donor has released",
        STEPS,
        "    owned = _all_of(held.values()) | _all_of(group.moves.releasing.values())\n",
        "    owned = _all_of(held.values()) - _all_of(group.moves.releasing.values())\n",
        (_STEPS + "test_one_that_does_not_release_is_removed_and_the_others_go_on", _LIVES),
    ),
    Mutant(
        "record of the donor reduced when it is asked",
        STEPS,
        "            group.moves.releasing[member_id] = set(give)\n",
        "            group.moves.releasing[member_id] = set(give)\n"
        "            _store(group, {member_id: [e for e in places if e not in give]}, step)\n",
        (_ASKS + "test_one_that_is_asked_has_its_partitions_until_it_has_released_them",),
    ),
    Mutant(
        "first JoinGroup of a cooperative donor taken as release",
        STEPS,
        "    released = asked - owned\n",
        "    released = set(asked)\n",
        (
            _STEPS + "test_a_newcomer_gets_its_share_without_a_rebalance",
            _STEPS + "test_after_a_crash_at_any_time_nothing_is_held_twice",
            _LIVES,
        ),
    ),
    Mutant(
        "what a plan took from a member given away at once",
        STEPS,
        "    _await_releases(group, moves, held, places, step)\n",
        "",
        (
            _FAULTS + "test_what_a_plan_takes_from_a_cooperative_member_is_given_away_when_it"
            "_has_rejoined",
            _LIVES,
        ),
    ),
    Mutant(
        "donor told all that it has",
        SYNC,
        "        reply.assignment = share_of(group, member)\n",
        "",
        (_STEPS + "test_a_newcomer_gets_its_share_without_a_rebalance", _LIVES),
    ),
    Mutant(
        "asked twice forgotten",
        "coordinator/heartbeat.py",
        "    if state is AskState.SYNCED and not is_releasing(group, member):  # at rest again\n",
        "    if state is AskState.SYNCED:  # at rest again\n",
        (_ASKS + "test_one_that_has_yet_to_release_may_send_heartbeats",),
    ),
    Mutant(
        "late SyncGroup taken as that of a member that has rejoined",
        SYNC,
        "        if releases and group.asked[member.member_id] is AskState.ASKED:\n",
        "        if releases and group.asked[member.member_id] is None:\n",
        (_FAULTS + "test_an_assignment_that_is_asked_for_late_is_no_rejoin", _LIVES),
    ),
    Mutant(
        "partitions of a seat given by the server",
        STEPS,
        "    return [each for each in places if each not in reserved] if reserved else places\n",
        "    return places\n",
        (_STEPS + "test_the_place_of_a_lost_member_is_kept_first_and_shared_out_then", _LIVES),
    ),
    Mutant(
        "server assigns to members of different topics",
        STEPS,
        "    return policy if moves.is_alike else None\n",
        "    return policy\n",
        (_FAULTS + "test_the_server_does_not_assign_to_members_of_different_topics", _LIVES),
    ),
    # -- spares
    Mutant(
        "standby told before the record is durable",
        "coordinator/gate.py",
        "        elif step.replies or facts:\n",
        "        elif facts or not any(\n"
        "            type(reply).__name__ == 'HeartbeatResponse' for _, reply in step.replies\n"
        "        ):\n",
        (_SCALING + "test_what_a_standby_took_over_survives_a_crash",),
    ),
    Mutant(
        "standby takes over without a record",
        SCALING,
        "    write_group(group, record, step)\n",
        "",
        (_SCALING + "test_what_a_standby_took_over_survives_a_crash", _LIVES),
    ),
    Mutant(
        "standby seen by the leader",
        "coordinator/replies.py",
        "    if group.standbys:\n",
        "    if not group.members:\n",
        (_SCALING + "test_the_leader_does_not_see_standbys_and_they_get_no_partitions",),
    ),
    Mutant(
        "leader chosen among standbys",
        STANDBY,
        "    return member.awaiting_join is not None and member.member_id not in group.standbys\n",
        "    return member.awaiting_join is not None\n",
        (_ASKS + "test_a_standby_is_not_preferred_as_leader",),
    ),
    Mutant(
        "partitions of one that is to stand by given to others at once",
        SYNC,
        "        share = _without(group.rebalance.withheld, share)\n",
        "        pass\n",
        (
            _FAULTS + "test_what_a_member_has_that_is_to_stand_by_is_given_away_when_it"
            "_has_rejoined",
            _LIVES,
        ),
    ),
    # -- asking
    Mutant(
        "time of an asked member not cancelled",
        SYNC,
        "            step.deadlines.cancel(Timer(TimerKind.ASKED, ",
        "            str((TimerKind.ASKED, ",
        (_SCALING + "test_a_standby_takes_over_and_nobody_else_is_told", _LIVES),
    ),
    Mutant(
        "time of an asked member cancelled while it has to release",
        SYNC,
        "        if not releases:\n",
        "        if member is not None:\n",
        (_FAULTS + "test_a_cooperative_member_that_says_it_would_release_and_does_not_is_removed",),
    ),
    Mutant(
        "asked members not asked again after a load",
        "coordinator/session_start.py",
        "                        ask(group, member, step)  # it may not know yet what it has\n",
        "                        pass\n",
        (_FAULTS + "test_after_a_crash_members_are_told_what_they_have", _LIVES),
    ),
    Mutant(
        "lost member asked",
        "coordinator/seats.py",
        "    forget_ask(group, member, step)\n",
        "",
        (_FAULTS + "test_a_member_that_is_asked_and_lost_is_asked_for_nothing", _LIVES),
    ),
)
