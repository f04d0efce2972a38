"""Infers why a member of a consumer group (KIP-848) is gone.

A record that a member left is equal to one that it was removed: tombstones and the next epoch. They
are told apart by the member's signs of life, with the rule of classic groups
(`history.departures`). Nothing waits for a join phase here, so the record is from the time of the
removal.

Source: KIP-848, Kafka 4.1 `GroupMetadataManager`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupkeeper.history.causes import CONFIDENCE, EXPIRED, REMOVED, UNKNOWN
from groupkeeper.history.departures import Departure, TimeRange, departure_of
from groupkeeper.history.evidence import ROUNDED_MS, SLACK_MS, CauseEvidence, Evidence
from groupkeeper.history.newer_members import AWAY, UNREVOKED, NewerMember
from groupkeeper.history.records import GroupRecord, RecordedMember
from groupkeeper.history.rows import instant
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
    member: NewerMember | None, record: GroupRecord, evidence: Evidence, limit: SessionLimit | None
) -> Departure:
    """Return why a member is gone, by the record that says so. `evidence`: commits for its
    partitions; `limit`: of its group, None if unknown. None as member: that is not known.
    """
    end_ms, known = instant(record.time_ms) or 0, limit or DEFAULT_LIMIT
    now = TimeRange(end_ms, end_ms)
    if member is None or not end_ms:
        return Departure(UNKNOWN, end_ms, now)
    if member.epoch == AWAY:
        # Its session goes on from its last heartbeat, which may have been late.
        away_ms = end_ms - member.heard_ms
        if away_ms >= known.least_ms:
            return Departure(EXPIRED, end_ms, now)
        is_early = away_ms < known.least_ms - known.heartbeat_ms
        return Departure(REMOVED if is_early and limit is not None else UNKNOWN, end_ms, now)
    limit_ms = POLL_MS if member.rebalance_ms is None else member.rebalance_ms
    if member.state == UNREVOKED and end_ms - member.state_ms >= limit_ms - ROUNDED_MS:
        return Departure(REVOCATION_TIMEOUT, end_ms, now)
    silent_ms = end_ms - max(evidence.last_ms or 0, member.heard_ms)
    has_stopped = silent_ms > (evidence.longest_ms or 0) + SLACK_MS
    if limit is None and has_stopped and silent_ms < known.least_ms:
        return Departure(UNKNOWN, end_ms, now)  # by default an expiry takes longer
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
    )
    return departure_of(before, setting, now, came_back=False, begun=False)
