"""The mutants of what is stored about causes: a wrong, missing, early or late event.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_GATE = "tests/coordinator/test_gate.py::"
_STALLS = "tests/coordinator/test_stalls.py::"
_REJOIN = "tests/coordinator/test_rejoin_cause.py::"
_BESIDE = "tests/groups/test_partition_log.py::"


def _transcript(title: str) -> str:
    return f"tests/parity/test_parity.py::test_transcript[{title}]"


EVENT_MUTANTS = (
    Mutant(
        "late joiner told as silent",
        "coordinator/rebalance.py",
        "code, longest_ms = CauseCode.JOIN_TIMEOUT, group.rebalance_timeout_ms",
        "code, longest_ms = CauseCode.SESSION_EXPIRED, group.rebalance_timeout_ms",
        (_transcript("causes: A slow member heartbeats and does not join"),),
    ),
    Mutant(
        "changed and unchanged leader swapped",
        "coordinator/rejoin_cause.py",
        "CauseCode.LEADER_REJOINED if leads else CauseCode.REJOINED_AFTER_LOAD",
        "CauseCode.REJOINED_AFTER_LOAD if leads else CauseCode.LEADER_REJOINED",
        (_REJOIN + "test_a_rejoin_after_a_load_is_compared_with_what_is_stored",),
    ),
    Mutant(
        "removal and leave swapped",
        "coordinator/leave.py",
        "        if not self._is_itself(member):",
        "        if self._is_itself(member):",
        (_transcript("causes: An administrator removes a member and says why"),),
    ),
    Mutant(
        "superseded round not told",
        "coordinator/rebalance.py",
        '        step.note(RebalanceAbandoned(*group.fact_head, why="superseded"))\n',
        "",
        (_transcript("sync-phase: A leader that never syncs is removed"),),
    ),
    Mutant(
        "cause of a round under way not told",
        "coordinator/rebalance.py",
        "        add_cause(group, cause, step)\n        complete_if_all_joined(group, step)\n",
        "        complete_if_all_joined(group, step)\n",
        (
            _transcript(
                "leave-group: A member leaves a group that prepares a rebalance and still waits for"
                " others"
            ),
        ),
    ),
    Mutant(
        "told before it is durable",
        "coordinator/gate.py",
        "        if self.appended == self.durable:\n            step.told = facts",
        "        if facts or self.appended == self.durable:\n            step.told = facts",
        (_GATE + "test_a_fact_is_told_when_its_records_are_durable",),
    ),
    Mutant(
        "event stored whose batch was left out",
        "storage/log/queued_log.py",
        "if self.belongs_to is not None and id(self.belongs_to) in left_out:",
        "if self.belongs_to is None and id(self.belongs_to) in left_out:",
        (_BESIDE + "test_a_batch_that_belongs_to_another_is_not_written_without_it",),
    ),
    Mutant(
        "events of a batch that cannot be written kept for the next",
        "coordinator/gate.py",
        "        self._untaken.clear()\n        self._untaken_facts = 0\n",
        "",
        (_GATE + "test_facts_that_are_lost_with_their_records_are_not_handed_out",),
    ),
    Mutant(
        "events out of order",
        "groupkeeper/groups/event_log.py",
        "                self._waiting.append(noted)",
        "                self._waiting.insert(0, noted)",
        (_transcript("sync-phase: A leader that never syncs is removed"),),
    ),
    Mutant(
        "missed poll claimed of who never committed",
        "coordinator/likely.py",
        "    if guess is not None or reason or idle_ms is None:\n        return guess, {}",
        "    if guess is not None or reason:\n        return guess, {}\n"
        "    idle_ms = rebalance_timeout_ms if idle_ms is None else idle_ms",
        (_transcript("causes: A consumer that never commits leaves without a word"),),
    ),
    Mutant(
        "rolling restart claimed after one",
        "coordinator/likely.py",
        "        if len(first) < 2:",
        "        if len(first) < 1:",
        (_transcript("causes: Static members are restarted one after the other"),),
    ),
    Mutant(
        "duel claimed of closed connections",
        "coordinator/likely.py",
        'ran = old.runs and link is not new.link and connection(link) == "open"',
        "ran = old.runs and link is not new.link",
        (_transcript("causes: Static members are restarted one after the other"),),
    ),
    # -- stalls of the coordinator
    Mutant(
        "session ends while its heartbeat waits for the disk",
        "coordinator/prolong.py",
        "    if stall.lasts:\n        return stall.look_at\n",
        "    if stall.lasts:\n        return None\n",
        (_STALLS + "test_members_keep_their_places_while_the_log_cannot_be_written",),
    ),
    Mutant(
        "session never ends after a stall",
        "coordinator/prolong.py",
        "return ends_ms if began_ms < stall.ended and ends_ms > step.now else None",
        "return ends_ms + timeout_ms if ends_ms + timeout_ms > step.now else None",
        (_STALLS + "test_a_member_that_stays_silent_is_removed_a_session_after_the_stall",),
    ),
    Mutant(
        "every wait for the disk a stall",
        "coordinator/gate.py",
        "self.stalls.waiting_since = None if mark == self.appended else now",
        "self.stalls.waiting_since = (\n"
        "            None if mark == self.appended else self.stalls.waiting_since\n        )",
        (_STALLS + "test_records_that_become_durable_one_after_the_other_are_no_stall",),
    ),
    Mutant(
        "a new client after a stall taken for one that gave up",
        "coordinator/prolong.py",
        "return known.link is peer.link or (known.link.closed and is_alike)",
        "return True",
        (_STALLS + "test_a_new_client_after_a_stall_is_a_new_member",),
    ),
    Mutant(
        "a restart long after a stall blamed on it",
        "coordinator/stalls.py",
        "return stall if heard_ms < stall.ended + STALL_MS else None",
        "return stall",
        (_STALLS + "test_a_client_that_is_restarted_long_after_a_stall_was_not_driven_out_by_it",),
    ),
    Mutant(
        "silence counted from the stall",
        "coordinator/liveness.py",
        "    member.heard_ms = last_heard(member, step.deadlines.popped_due, step.now)\n"
        "    member.restarted_ms = ends_ms",
        "    member.restarted_ms = -1 + 0 * ends_ms",
        (_STALLS + "test_a_member_that_stays_silent_is_removed_a_session_after_the_stall",),
    ),
    # -- codes that say no more than was seen
    Mutant(
        "rejoin after a load told as a change",
        "coordinator/rejoin_cause.py",
        "if member.is_restored and not is_unchanged:",
        "if False and member.is_restored and not is_unchanged:",
        (_REJOIN + "test_a_rejoin_after_a_load_is_compared_with_what_is_stored",),
    ),
    Mutant(
        "metadata of Connect read as a subscription",
        "coordinator/rejoin_cause.py",
        "if None in topics[0] or None in topics[1] or protocol_type != CONSUMER:",
        "if None in topics[0] or None in topics[1]:",
        (
            _REJOIN
            + "test_metadata_that_is_no_subscription_has_changed_and_nothing_is_said_of_topics",
        ),
    ),
)
