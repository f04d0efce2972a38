"""A JoinGroup request with its caller and reply token, as `join` and `static_join` pass it on."""

from dataclasses import dataclass
from sys import intern

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.liveness import contacted
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.replies import answer_join, join_refused
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


@dataclass(slots=True)
class JoinCall:
    """The request, the client that sent it, and where its answer goes."""

    request: JoinGroupRequest
    caller: Caller
    reply_to: ReplyTo
    _protocols: list[JoinGroupRequestProtocol] | None = None

    @property
    def protocols(self) -> list[JoinGroupRequestProtocol]:
        """The offered protocols without repeated names, which break Kafka's count of supporters."""
        found = self._protocols
        if found is None:
            found = self._protocols = _without_doubles(self.request.protocols)
        return found

    @property
    def timeouts(self) -> tuple[int, int]:
        """Session and rebalance timeout in ms; v0 has one timeout for both."""
        session = self.request.session_timeout_ms
        first_version = self.caller.api_version == 0
        return session, session if first_version else self.request.rebalance_timeout_ms

    def who(self, member_id: str) -> Who:
        return Who.calling(self.caller, member_id, self.request.group_instance_id)

    def cause(self, code: CauseCode, member_id: str) -> Cause:
        return Cause(code, self.who(member_id), self.request.reason)

    def refuse(self, error: ErrorCode, step: Step, member_id: str = "") -> None:
        step.reply(self.reply_to, join_refused(error, self.caller.api_version, member_id))


def _without_doubles(protocols: list[JoinGroupRequestProtocol]) -> list[JoinGroupRequestProtocol]:
    if len(protocols) == 1:  # nearly always
        return protocols
    first = {p.name: p for p in reversed(protocols)}
    if len(first) == len(protocols):
        return protocols
    return [p for p in protocols if first[p.name] is p]


def new_member(call: JoinCall, member_id: str, step: Step) -> Member:
    """Make a member from its first JoinGroup."""
    protocols = call.protocols
    for protocol in protocols:  # members and groups have these names in common
        protocol.name = intern(protocol.name)
    peer, (session_ms, rebalance_ms) = call.caller.peer, call.timeouts
    return Member(
        member_id=member_id,
        instance_id=call.request.group_instance_id,
        client_id=peer.client_id,
        client_host=peer.host,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocols=protocols,
        is_new=True,
        peer=peer,
        heard_ms=step.now,
        beat_ms=step.now,
    )


def park(group: Group, member: Member, call: JoinCall, step: Step) -> None:
    """Update the member from its request, and let the request wait for the other members."""
    answer_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, step, member.member_id)
    contacted(group, member, call.caller.peer, step)
    group.update(member, call.protocols, call.timeouts)
    group.park_join(member, call.reply_to, call.caller.api_version, step.now)


def differences(member: Member, call: JoinCall) -> list[str]:
    """Return what a rejoin changes: `metadata`, `protocols` (names or order), `timeouts`."""
    before = {p.name: p.metadata for p in member.protocols}
    after = {p.name: p.metadata for p in call.protocols}
    timeouts = member.session_timeout_ms, member.rebalance_timeout_ms
    changed = {
        "metadata": any(before.get(name, data) != data for name, data in after.items()),
        "protocols": list(before) != list(after),
        "timeouts": timeouts != call.timeouts,
    }
    return [name for name, differs in changed.items() if differs]
