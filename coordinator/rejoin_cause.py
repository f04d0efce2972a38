"""The cause of a rebalance that a member starts by sending JoinGroup again.

A cause says what differs between two JoinGroup requests of the member, as far as the coordinator
reads their metadata. The motive is a guess, from the client's own words (KIP-800) or from the
partitions that the member gave up.
"""

from typing import Final

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.join_call import JoinCall
from groupkeeper.coordinator.likely import (
    CONFIG_CHANGED,
    COORDINATOR_STALLED,
    PARTITIONS_CHANGED,
    PARTITIONS_REVOKED,
    said_of_rejoin,
)
from groupkeeper.coordinator.liveness import heard_at
from groupkeeper.coordinator.member import Member, Protocols
from groupkeeper.coordinator.stalls import evidence_of
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.subscription import topics_of_all
from groupkeeper.protocol.embedded import CONNECT, CONSUMER, read_config_offset, read_owned
from groupkeeper.protocol.group_events import CauseCode

RECONNECTED_MS: Final = 5_000
"""Time after a load in which clients connect anew, and read their metadata again."""


def rejoin_cause(group: Group, member: Member, call: JoinCall, step: Step) -> Cause:
    """Return the cause of a rejoin. To be called before the member is updated."""
    code, count = _observed(group, member, call)
    cause = call.cause(code, member.member_id)
    if count is not None:
        cause.evidence = {"revoked": count}
    cause.likely = said_of_rejoin(cause.reason)
    offsets = _config_offsets(group, member, call) if code is CauseCode.METADATA_CHANGED else None
    if cause.likely is None and offsets is not None:
        cause.likely, cause.evidence = CONFIG_CHANGED, {"config_offsets": offsets}
    elif cause.likely is None and count and not cause.reason:
        cause.likely = PARTITIONS_REVOKED
    elif code is not CauseCode.SUBSCRIPTION_CHANGED:
        _blame_coordinator(group, member, cause, step)
    return cause


def _blame_coordinator(group: Group, member: Member, cause: Cause, step: Step) -> None:
    """Guess that the member rejoins because the coordinator did not answer, or was loaded. Java
    says that its metadata has changed, too, when it had lost all brokers.
    """
    if cause.likely in (None, PARTITIONS_CHANGED):
        heard_ms = heard_at(group, member, step)
        last = step.stalls.last if cause.likely and member.is_restored else None
        if last is not None and step.now - last.ended < RECONNECTED_MS:
            heard_ms = min(heard_ms, last.ended)  # heartbeats go on before metadata is read anew
        stall = step.stalls.behind(heard_ms, member.session_timeout_ms, step.now)
        if stall is not None and (cause.likely is None or stall.what == "load"):
            cause.likely = COORDINATOR_STALLED
            cause.evidence = {**cause.evidence, **evidence_of(stall, step.now)}


def _observed(group: Group, member: Member, call: JoinCall) -> tuple[CauseCode, int | None]:
    """Return the code, and how many partitions the member gave up, if that is what changed."""
    before, after = member.protocols, call.protocols
    is_unchanged = before == after
    if member.is_restored and not is_unchanged:
        names = {each.name for each in before}
        after = [each for each in after if each.name in names]  # only these are stored
        is_unchanged = before == after
    leads = member.member_id == group.leader_id
    if is_unchanged:
        return CauseCode.LEADER_REJOINED if leads else CauseCode.REJOINED_AFTER_LOAD, None
    code = what_changed(group.protocol_type, before, after)
    count = revoked(before, after) if code is CauseCode.MEMBER_REJOINED else None
    if leads and count == 0:
        # It gave up nothing: the metadata only adds partitions that were assigned since.
        return CauseCode.LEADER_REJOINED, None
    return code, count


def _config_offsets(group: Group, member: Member, call: JoinCall) -> list[int] | None:
    """Return the offsets of the configurations that a worker of Kafka Connect had read before and
    has read now, if they differ.
    """
    if group.protocol_type != CONNECT:
        return None
    read = [read_config_offset(each[0].metadata) for each in (member.protocols, call.protocols)]
    found = [each for each in read if each is not None]
    return found if len(set(found)) == len(read) else None


def what_changed(protocol_type: str, before: Protocols, after: Protocols) -> CauseCode:
    """Return the code for changed protocols: other topics or protocols of a consumer, only its user
    data, or metadata that is no subscription.
    """
    if [each.name for each in before] != [each.name for each in after]:
        return CauseCode.SUBSCRIPTION_CHANGED
    topics = [
        [topics_of_all([each.metadata]) for each in protocols] if protocol_type == CONSUMER else []
        for protocols in (before, after)
    ]
    if None in topics[0] or None in topics[1] or protocol_type != CONSUMER:
        return CauseCode.METADATA_CHANGED
    same = topics[0] == topics[1]
    return CauseCode.MEMBER_REJOINED if same else CauseCode.SUBSCRIPTION_CHANGED


def revoked(before: Protocols, after: Protocols) -> int | None:
    """Return how many of its partitions the member has given up, according to the metadata of its
    first protocol, as in the second rebalance of a cooperative consumer; None if the metadata does
    not say or is too long to read.
    """
    owned = [read_owned(each[0].metadata) for each in (before, after)]
    if owned[0] is None or owned[1] is None:
        return None
    return len(owned[0] - owned[1])
