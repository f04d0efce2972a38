"""Evidence from which the cause of a rebalance is inferred: the commits for the partitions of each
member, and how the record of the rebalance differs from the one before.

A commit shows that its member was alive. Times are Unix ms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from groupkeeper.history.asked import UNSEEN, SeenStart
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import CommitRun, RecordedMember

REGULAR: Final = 3
"""From this many commits on, the longest pause between two of them measures their regularity."""
HEARTBEAT_MS: Final = 3_000
"""`heartbeat.interval.ms` of most clients; at most a third of the session timeout."""
FOLLOW_UP_MS: Final = 15_000
"""Longest time until the second round of a cooperative rebalance: members that gave up partitions
rejoin at once, the others after a heartbeat."""
SLACK_MS: Final = 1_000
"""Allowance for delays of timers and requests."""
ROUNDED_MS: Final = 10
"""Allowance for times that are rounded to milliseconds, of two clocks."""
WAITED_MS: Final = 100
"""How long a join phase may go on after the member is gone for which alone it had waited."""

RELOADED: Final = "reloaded"
"""In the evidence of an inferred cause: another coordinator loaded the group since the record
before, and sessions began anew."""


STOPPED_FIRST: Final = "stopped_first"
"""In the evidence of an inferred cause: its member stopped committing while all others went on, as
one does that rejoins unprompted and then waits for them."""


class Evidence(NamedTuple):
    """Commits for a member's partitions: time of the last one (None if there is none) and the
    longest pause between two in ms (None if unknown).
    """

    last_ms: int | None = None
    longest_ms: int | None = None


@dataclass(slots=True)
class Commits:
    """Commits for one partition since its current member owns it."""

    member: str
    commits: int = 0
    last_ms: int | None = None
    longest_ms: int = 0
    behind: int = -1
    """Offset of the group record before the last commit; pauses across one do not count."""
    leader_epoch: int = -1
    """Leader epoch of the last commit. Pauses in which it changed do not count: there was no
    coordinator to commit to."""

    def add(self, run: CommitRun, behind: int, is_whole: bool) -> None:
        """Add commits after the group record at offset `behind`. Only if `is_whole` (no commit is
        missing) do they count as evidence of regularity.
        """
        if is_whole:
            gap = 0
            is_next = self.behind == behind and self.leader_epoch == run.leader_epoch
            if self.last_ms is not None and is_next:
                gap = run.first_ms - self.last_ms
            self.longest_ms = max(self.longest_ms, run.longest_ms, gap)
            self.commits += run.commits
            self.behind, self.leader_epoch = behind, run.leader_epoch
        self.last_ms = max(self.last_ms or 0, run.last_ms)


def evidence_of(
    held: Mapping[OwnedPartition, Commits], idle: Mapping[OwnedPartition, int]
) -> dict[str, Evidence]:
    """Return the evidence for each member that owns partitions. `idle`: time until which a
    partition had nothing to commit; if that is later than its next commit would have been, the lack
    of commits shows nothing.
    """
    found: dict[str, Evidence] = {}
    for place, each in held.items():
        last, longest = found.get(each.member, (None, None))
        if each.last_ms is not None and (last is None or each.last_ms > last):
            last = each.last_ms
        due_ms = (each.last_ms or 0) + each.longest_ms + SLACK_MS
        is_regular = each.commits >= REGULAR and idle.get(place, 0) < due_ms
        if is_regular and (longest is None or each.longest_ms < longest):
            longest = each.longest_ms
        found[each.member] = Evidence(last, longest)
    return found


class CauseEvidence(NamedTuple):
    """Evidence for a cause. `end_ms`: end of the join phase; `evidence`: commits by member id;
    `reloaded`: another coordinator has loaded the group since, which restarts sessions; `withheld`:
    the earlier record, of `began_ms`, revoked partitions and assigned them to none; `converted`: it
    converted the group, after which Kafka triggers a rebalance; `aborted`: number of rounds without
    assignments between the records; `grown`: a topic has new partitions, for which leaders rejoin;
    `ended_by`: members with whose departure the join phase can have ended; `waited`: it had begun
    before that, as others had to learn of it; `late`: the member for which it had waited until its
    timeout, empty if none; `seen`: what the coordinator was asked meanwhile.
    """

    end_ms: int
    evidence: Mapping[str, Evidence]
    reloaded: bool
    withheld: bool
    converted: bool
    began_ms: int
    aborted: int
    grown: bool = False
    ended_by: Sequence[str] = ()
    waited: bool = False
    late: str = ""
    seen: SeenStart = UNSEEN

    @property
    def soon(self) -> bool:
        """Whether this round can be the second one of a cooperative rebalance."""
        return self.end_ms - self.began_ms <= FOLLOW_UP_MS

    def of(self, member: RecordedMember) -> Evidence:
        """Return the commits for the partitions of a member."""
        return self.evidence.get(member.member, _NOTHING)

    def seen_ms(self, member: RecordedMember) -> int:
        """Return when the member was last seen, as far as the log shows."""
        return min(max(self.of(member).last_ms or 0, member.heard_ms), self.end_ms)

    def is_silent(self, member: RecordedMember) -> bool:
        """Whether the log shows nothing of the member for the time of its session."""
        gone_ms = self.seen.gone.get(member.member, self.end_ms)
        return gone_ms - self.seen_ms(member) >= member.session_ms - ROUNDED_MS

    def ends_with(self, member: RecordedMember) -> bool:
        """Whether the join phase ended when the session of this member, which is gone, ended: just
        its timeout after its last commit, from which a coordinator counts, too. The age of a
        generation may be the same by chance.
        """
        last_ms = self.of(member).last_ms
        if last_ms is None or last_ms < self.seen_ms(member) or self.reloaded:
            return False
        after_ms = self.end_ms - last_ms - member.session_ms
        can_be_late = member.rebalance_ms <= member.session_ms + SLACK_MS  # it called poll too late
        is_just_then = -ROUNDED_MS <= after_ms <= WAITED_MS
        return is_just_then and not can_be_late

    def ends_by_commit(self, member: RecordedMember) -> bool:
        """Whether the member committed just before the join phase ended, as one does that leaves or
        rejoins.
        """
        last_ms = self.of(member).last_ms
        return last_ms is not None and self.end_ms - last_ms <= WAITED_MS

    def has_stopped(self, member: RecordedMember) -> bool:
        """Whether a silent member committed regularly before, and more often than since. Other
        members may send heartbeats and have nothing to commit.
        """
        longest_ms = self.of(member).longest_ms
        is_late = longest_ms is not None and self.end_ms > self.next_ms(member, longest_ms)
        return is_late and self.is_silent(member)

    def next_ms(self, member: RecordedMember, longest_ms: int) -> int:
        """Return until when a live member would have committed again."""
        return self.seen_ms(member) + longest_ms + SLACK_MS


_NOTHING: Final = Evidence()
