"""Infers why a member of a consumer group (KIP-848) is gone.

A record that a member left is equal to one that it was removed: tombstones and the next epoch. They
are told apart by the member's signs of life, with the rule of classic groups
(`history.inference`). Nothing waits for a join phase here, so the record is from the time of the
removal.

Source: KIP-848, Kafka 4.1 `GroupMetadataManager`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupkeeper.history import inference
from groupkeeper.history.causes import CONFIDENCE, EXPIRED, REMOVED, UNKNOWN
from groupkeeper.history.departures import Departure, TimeRange
from groupkeeper.history.evidence import ROUNDED_MS, SLACK_MS, CauseEvidence, Evidence
from groupkeeper.history.newer_members import AWAY, UNREVOKED, NewerMember
from groupkeeper.history.records import Generation, GroupRecord, RecordedMember
from groupkeeper.protocol.group_events import CauseCode


class SessionLimit(NamedTuple):
    """Settings of a consumer group in ms: members send heartbeats at an interval, and a session
    ends if none comes for the timeout. Commits do not count, but show that a member lives.
    """

    timeout_ms: int
    heartbeat_ms: int

    @property
    def least_ms(self) -> int:
        """The shortest time from the last sign of life to the end of a session: a member may have
        committed just before its next heartbeat.
        """
        return self.timeout_ms - self.heartbeat_ms - ROUNDED_MS


LimitsByGroup = Mapping[str, SessionLimit]
NO_LIMITS: Final[LimitsByGroup] = {}
DEFAULT_LIMIT: Final = SessionLimit(45_000, 5_000)
"""Defaults of brokers; by default no group may have a shorter session."""
POLL_MS: Final = 300_000
"""Default of `max.poll.interval.ms`, the rebalance timeout of most members."""
REVOCATION_TIMEOUT: Final = CauseCode.JOIN_TIMEOUT.value
TOPICS_CHANGED: Final = CauseCode.TOPICS_CHANGED.value
SURE: Final = {**CONFIDENCE, REVOCATION_TIMEOUT: 0.9, TOPICS_CHANGED: 0.9}
"""Confidence by code of the cause."""


def departure(
    member: NewerMember, record: GroupRecord, evidence: Evidence, limit: SessionLimit | None
) -> Departure:
    """Return why a member is gone, by the record that says so. `evidence`: commits for its
    partitions; `limit`: of its group, None if unknown.
    """
    end_ms, known = record.time_ms, limit or DEFAULT_LIMIT
    seen_ms = max(evidence.last_ms or 0, member.heard_ms)
    unknown = Departure(UNKNOWN, end_ms, TimeRange(seen_ms, end_ms))
    if member.epoch == AWAY:
        if end_ms - member.heard_ms >= known.least_ms:
            return unknown._replace(code=EXPIRED)
        return unknown if limit is None else unknown._replace(code=REMOVED)
    limit_ms = POLL_MS if member.rebalance_ms is None else member.rebalance_ms
    if member.state == UNREVOKED and end_ms - member.state_ms >= limit_ms - ROUNDED_MS:
        return unknown._replace(code=REVOCATION_TIMEOUT)
    silent_ms = end_ms - seen_ms
    has_stopped = silent_ms > (evidence.longest_ms or 0) + SLACK_MS
    if limit is None and has_stopped and silent_ms < known.least_ms:
        return unknown  # by default an expiry takes longer
    can_be_shorter = known.least_ms <= silent_ms < known.timeout_ms
    before = RecordedMember(
        member=member.member,
        instance=member.instance,
        client_id=member.client_id,
        host=member.host.removeprefix("/"),
        session_ms=silent_ms if can_be_shorter else known.timeout_ms,
        rebalance_ms=limit_ms,
        digest="",
        topics=member.topics,
        heard_ms=member.heard_ms,
    )
    setting = CauseEvidence(
        end_ms,
        {member.member: evidence},
        reloaded=member.leader_epoch != record.leader_epoch,
        withheld=False,
        converted=False,
        began_ms=end_ms,
        aborted=0,
        commits_count=False,
    )
    was = Generation(0, None, None, None, None, {member.member: before})
    now = Generation(1, None, None, None, None, {})
    changes = inference.compare(was.members, now.members)
    return inference.explain(was, now, changes, setting).departures[member.member]
