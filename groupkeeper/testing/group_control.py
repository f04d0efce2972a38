"""Operations of a test on a group: expire a session, fence an instance id, force a rebalance.

Coroutines for the server's event loop. Each returns when the change is durable and the responses
are sent. Clients notice the change at their next request.
"""

from collections.abc import Callable

from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.rebalance import prepare
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.timers import end_session
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.testing.errors import RequestFailed
from groupkeeper.testing.host import Host
from groupkeeper.testing.time.control import names_of
from groupkeeper.testing.wire.tap import HOST, INSIDE

_JOIN_VERSION = 9


async def expire(bench: Host, group_id: str, name: str) -> None:
    """See `Group.expire`."""
    driver, group = _group(bench, group_id)
    named = [each for each in group.members.values() if name in names_of(each)]
    if not named:
        raise _no_member(group, name)
    for member in named:
        if member.waits:
            raise RequestFailed(
                f"the session of {member.member_id} cannot expire while its JoinGroup or SyncGroup "
                "is pending; first wait until the group is stable"
            )

    def end(step: Step) -> None:
        for member in named:
            end_session(group, member, step)

    await _decided(driver, end)


async def fence(bench: Host, group_id: str, instance_id: str) -> str:
    """See `Group.fence`."""
    _, group = _group(bench, group_id)
    member_id = group.instances.get(instance_id)
    if member_id is None:
        raise _no_member(group, instance_id)
    if group.state is not GroupState.STABLE:
        raise RequestFailed(
            f"group '{group_id}' is {group.state}: fence() needs a stable group, because the other "
            "process does not take part in rebalances; first wait until the group is stable"
        )
    member = group.members[member_id]
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        group_instance_id=instance_id,
        protocol_type=group.protocol_type,
        protocols=list(member.protocols),
    )
    other = bench.inside()
    answer = await bench.tap.ask(ApiKey.JOIN_GROUP, _JOIN_VERSION, request, peer=other)
    other.link.closed = True  # the process ends without LeaveGroup
    if answer.error_code:
        raise RequestFailed(f"'{instance_id}' was not fenced: {ErrorCode(answer.error_code).name}")
    return str(answer.member_id)


async def rebalance(bench: Host, group_id: str, reason: str | None) -> None:
    """See `Group.rebalance`."""
    driver, group = _group(bench, group_id)
    if not group.members:
        raise RequestFailed(f"group '{group_id}' has no members to rebalance")
    who = Who("", client_id=INSIDE, host=HOST)
    cause = Cause(CauseCode.OPERATOR, who, reason)
    await _decided(driver, lambda step: prepare(group, cause, step))


async def _decided(driver: PartitionDriver, decide: Callable[[Step], None]) -> None:
    driver.decide(decide)
    await driver.durable()


def _group(bench: Host, group_id: str) -> tuple[PartitionDriver, Group]:
    driver = bench.server.group_partitions.of(group_id)
    if driver.absence:
        raise RequestFailed(f"the coordinator of group '{group_id}' is loading, or has failed")
    group = driver.peek(group_id)
    if group is None:
        raise RequestFailed(f"group '{group_id}' does not exist")
    return driver, group


def _no_member(group: Group, name: str) -> RequestFailed:
    def called(member: Member) -> str:
        return member.instance_id or member.member_id

    there = ", ".join(map(called, group.members.values())) or "none"
    return RequestFailed(f"group '{group.group_id}' has no member '{name}'; members: {there}")
