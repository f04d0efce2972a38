"""A JoinGroup on its way through the checks, and the parking of one that has to wait.

Not the checks themselves: those are in `coordinator.join` and `coordinator.static_join`.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, CauseCode, Who
from groupkeeper.coordinator.group import Group, Member, Protocols, topics_of_all
from groupkeeper.coordinator.replies import answer_join, join_refused
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


@dataclass(slots=True)
class JoinCall:
    """The request, who sent it, and where its answer goes."""

    request: JoinGroupRequest
    caller: Caller
    reply_to: ReplyTo

    @property
    def protocols(self) -> list[JoinGroupRequestProtocol]:
        """As offered, a name that comes twice only once: Kafka's count of supporters breaks."""
        first = {p.name: p for p in reversed(self.request.protocols)}
        if len(first) == len(self.request.protocols):
            return self.request.protocols
        return [p for p in self.request.protocols if first[p.name] is p]

    @property
    def timeouts(self) -> tuple[int, int]:
        """Session and rebalance timeout; v0 has only the first, which then serves for both."""
        session = self.request.session_timeout_ms
        first_version = self.caller.api_version == 0
        return session, session if first_version else self.request.rebalance_timeout_ms

    def who(self, member_id: str) -> Who:
        return Who.calling(self.caller, member_id, self.request.group_instance_id)

    def cause(self, code: CauseCode, member_id: str) -> Cause:
        return Cause(code, self.who(member_id), self.request.reason)

    def refuse(self, error: ErrorCode, step: Step, member_id: str = "") -> None:
        step.reply(self.reply_to, join_refused(error, self.caller.api_version, member_id))


def what_changed(before: Protocols, after: Protocols) -> CauseCode:
    """Why a member rejoins with another list: other topics or protocols, or only its user data?

    The second is how a cooperative consumer asks for the round after a revocation (KIP-429).
    """
    same = [p.name for p in before] == [p.name for p in after] and all(
        _same_topics(p.metadata, q.metadata) for p, q in zip(before, after, strict=True)
    )
    return CauseCode.MEMBER_REJOINED if same else CauseCode.SUBSCRIPTION_CHANGED


def _same_topics(before: bytes, after: bytes) -> bool:
    """Very many topics count as others."""
    topics = topics_of_all([before])
    return topics is not None and topics == topics_of_all([after])


def park(group: Group, member: Member, call: JoinCall, step: Step) -> None:
    """The member takes over what the request says, and its request waits for the others."""
    answer_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, step, member.member_id)
    group.update(member, call.protocols, call.timeouts)
    group.park_join(member, call.reply_to, call.caller.api_version)
