"""The mutants of what is stored about causes: a wrong, missing, early or late event.

As in `catalogue`, one that no test notices is a missing test.
"""

from tests.mutants.mutant import Mutant

_GATE = "tests/coordinator/test_gate.py::"
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
        "coordinator/join.py",
        "    if changed:\n        code, count = what_changed(",
        "    if not changed:\n        code, count = what_changed(",
        (
            _transcript(
                "cooperative-rebalancing:"
                " Two rebalances move a partition from one member to another"
            ),
        ),
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
)
