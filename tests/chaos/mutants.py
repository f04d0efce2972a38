"""Servers without what holds an attack off: the attack has to notice each, for the right reason.

    python -m tests.chaos mutants                      all of them, six minutes
    python -m tests.chaos mutants hung-cleaner         those of an attack

A mutant is one change in a copy of the product. Exit code 1: a verdict was good, or bad for another
reason. 2: an attack has no mutant.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.chaos.catalogue import ATTACKS
from tests.chaos.trial import trial
from tests.chaos.verdict import faults
from tests.mutants.__main__ import copy_tree
from tests.mutants.mutant import Mutant

GROUPS = "coordinator/groups.py"
UNKNOWN = 2
"""Exit code: an argument is no attack that has a mutant."""


@dataclass(frozen=True, slots=True)
class Undefended:
    """A mutant, and what the verdict of an attack on it says."""

    attack: str
    mutant: Mutant
    said: str


def _undefended(attack: str, name: str, path: str, old: str, new: str, said: str) -> Undefended:
    return Undefended(attack, Mutant(name, path, old, new, (attack,)), said)


MUTANTS = (
    _undefended(
        "refused-join-flood",
        "groups that are only asked for are told",
        GROUPS,
        "        size = len(group_id.encode(",
        "        step.note(GroupCreated(*group.fact_head, who=who))\n"
        "        size = len(group_id.encode(",
        "of the disk are gone",
    ),
    _undefended(
        "dead-groups-memory",
        "groups that are gone are kept",
        GROUPS,
        "        super().__delitem__(group_id)\n",
        '        self.__dict__.setdefault("_gone", []).append(self[group_id])\n'
        "        super().__delitem__(group_id)\n",
        "when the groups are gone",
    ),
    _undefended(
        "slow-topic-disk",
        "appends on the event loop",
        "groupkeeper/topics/appender.py",
        "self._jobs.start(call, wait=wait and size <= WAITED_BYTES)",
        "FileJobs.start(self._jobs, call)",
        "the event loop made file calls",
    ),
    _undefended(
        "slow-sync-at-stop",
        "logs synced one after the other",
        "storage/store.py",
        "errors = at_once([",
        "errors = one_after_another([",
        "exit code 1 after 8",
    ),
    _undefended(
        "hung-sync-at-stop",
        "a stop without a deadline",
        "groupkeeper/server/stopping.py",
        "        if now >= end:\n",
        "        if now >= end + 3600:\n",
        "exit code",
    ),
    _undefended(
        "hung-cleaner",
        "nobody notices a compaction that hangs",
        "groupkeeper/cleaner/process.py",
        "if watched.is_hung(now):",
        "if False:",
        "a compaction hangs, and no line",
    ),
    _undefended(
        "ten-thousand-time-out",
        "all late members are removed at once",
        "coordinator/answers.py",
        "REMOVED_AT_ONCE: Final = 50\n",
        "REMOVED_AT_ONCE: Final = 50_000\n",
        "stall",
    ),
    _undefended(
        "half-open-tls",
        "handshakes without an end",
        "groupkeeper/connections/handshakes.py",
        "TIMEOUT_S: Final = 10.0\n",
        "TIMEOUT_S: Final = 600.0\n",
        "are open after",
    ),
)


def verdict_on(undefended: Undefended, folder: Path) -> str:
    """What the attack says about the mutant; empty if it is good. Raises ServerError, Misplaced."""
    tree = folder / "tree"
    copy_tree(tree)
    undefended.mutant.apply(tree)
    attack = ATTACKS[undefended.attack]
    figures = trial(attack, folder / "server", 0.0, lambda _: None, tree)
    return "; ".join(fault.words for fault in faults(attack, figures))


def main(arguments: list[str]) -> int:
    """Play the attacks of these names, or all; how many mutants were not noticed, at most 1."""
    chosen = [each for each in MUTANTS if not arguments or each.attack in arguments]
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if unknown := set(arguments) - {each.attack for each in MUTANTS}:
        console.print(f"no mutant belongs to an attack of this name: {', '.join(sorted(unknown))}")
        return UNKNOWN
    unnoticed = 0
    for each in chosen:
        with tempfile.TemporaryDirectory(prefix="groupkeeper-chaos-") as folder:
            said = verdict_on(each, Path(folder))
        noticed = each.said in said
        unnoticed += not noticed
        what = "noticed" if noticed else "NOT NOTICED"
        console.print(f"{each.attack:24}{what:13}{each.mutant.name}: {said or 'good'}")
    console.print(f"{len(chosen) - unnoticed} of {len(chosen)} mutants were noticed")
    return min(unnoticed, 1)
