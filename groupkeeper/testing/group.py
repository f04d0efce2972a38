"""The consumer groups of a test broker for tests: `Group`, and `AsyncGroup` for coroutines."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self, Unpack

from groupkeeper.testing import arguments, group_control
from groupkeeper.testing.errors import BrokerDown
from groupkeeper.testing.on_thread import OnThread, on_thread
from groupkeeper.testing.views import AssignedPartition, GroupNow, MemberNow, Round, Sights
from groupkeeper.testing.waiting import Conditions, Wait, Wanted

if TYPE_CHECKING:
    from groupkeeper.testing.bench import Bench

TIMEOUT_S: Final = 20.0
"""Default timeout of `wait_until`, in real seconds."""


class GroupView:
    """The present state of a group. Each attribute queries the broker, in less than a millisecond;
    `now` is a consistent snapshot of all of them.
    """

    def __init__(self, bench: "Bench", group_id: str) -> None:
        self._bench = bench
        self.id = arguments.text(group_id, "a group's id")

    @property
    def now(self) -> GroupNow:
        """A snapshot of the group. Raises BrokerDown, like all attributes."""
        return self._bench.sights.now(self.id)

    @property
    def exists(self) -> bool:
        """Whether the group exists."""
        return self.now.exists

    @property
    def state(self) -> str:
        """See `GroupNow.state`."""
        return self.now.state

    @property
    def generation(self) -> int:
        """Generation id; -1 if the group does not exist."""
        return self.now.generation

    @property
    def members(self) -> tuple[MemberNow, ...]:
        """The members, in join order."""
        return self.now.members

    @property
    def assigned(self) -> dict[str, list[int]]:
        """The assigned partitions of all members, by topic; empty unless the group is Stable."""
        return self.now.assigned

    @property
    def committed(self) -> Mapping[AssignedPartition, int]:
        """Committed offsets, by (topic, partition)."""
        return self.now.committed

    @property
    def lag(self) -> int | None:
        """Total lag in records; None if no partition is assigned or committed."""
        return self.now.lag

    @property
    def lags(self) -> Mapping[AssignedPartition, int]:
        """Lag in records of each partition; see `GroupNow.lags`."""
        return self.now.lags

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Rebalances since the broker's start or reset; see `GroupNow.rounds`."""
        return self.now.rounds

    def member(self, name: str) -> MemberNow:
        """Return the member with this instance, client or member id. Raises LookupError."""
        members = self.members
        for each in members:
            if each.is_called(name):
                return each
        names = ", ".join(repr(each.name) for each in members) or "none"
        raise LookupError(f"group '{self.id}' has no member {name!r}; members: {names}")

    def no_rebalance(self) -> "NoRebalance":
        """Fail if a rebalance starts within a `with` or `async with` statement, and report why.

            with group.no_rebalance():
                restart(consumer)
                group.wait_until(committed={("orders", 0): 5})

        Wait for the effect inside the statement: later rebalances do not count. Raises
        AssertionError, unless the statement raises.
        """
        return NoRebalance(self._bench.sights, self.id)

    def timeline(self) -> str:
        """Return the group's history with causes, and its present state; see `Broker.timeline`."""
        return self._bench.sights.timeline(self.id)

    def __repr__(self) -> str:
        try:
            return repr(self.now)
        except BrokerDown as down:
            return f"<group {self.id!r}: {down}>"


class Group(GroupView):
    """A group of a test broker, with blocking methods."""

    def wait_until(self, *, timeout: float = TIMEOUT_S, **wanted: Unpack[Conditions]) -> GroupNow:
        """Wait until the group meets all conditions at once, and return a snapshot of that moment.

            group.wait_until(stable=True, members=3)

        `Conditions` lists the conditions; at least one is required. `timeout` is in real seconds.
        The broker may crash and restart in the meantime. Raises WaitTimedOut, an AssertionError
        with the unmet conditions and the group's present state.
        """
        __tracebackhide__ = True
        return Wait(self._bench, self.id, Wanted(wanted)).wait(timeout)

    def expire(self, member: str) -> None:
        """Expire the session of each member with this member, instance or client id, as if it had
        sent nothing for its session timeout; the recorded cause and evidence are the same. Its
        client gets UNKNOWN_MEMBER_ID, and joins again.

        Raises BrokerDown, and RequestFailed, also while a JoinGroup or SyncGroup is pending.
        """
        self._bench.run(lambda: group_control.expire(self._bench, self.id, member))

    def fence(self, instance_id: str) -> str:
        """Fence a static member: another process joins with its instance id and then disappears.
        The client gets FENCED_INSTANCE_ID. There is no rebalance, because the other process keeps
        the partitions until its session expires (`Broker.advance`) or a client joins with the
        instance id. Returns the member id of the other process.

        Raises BrokerDown, and RequestFailed, also unless the group is Stable.
        """
        arguments.text(instance_id, "an instance id")
        return self._bench.run(lambda: group_control.fence(self._bench, self.id, instance_id))

    def rebalance(self, reason: str | None = None) -> None:
        """Force a rebalance with the cause `operator` and an optional reason.

        Raises RequestFailed if the group has no members, and BrokerDown.
        """
        if reason is not None:
            arguments.text(reason, "reason")
        self._bench.run(lambda: group_control.rebalance(self._bench, self.id, reason))


class AsyncGroup(OnThread[Group], GroupView):
    """A group of a test broker, for coroutines: methods are awaitable, attributes are not."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        GroupView.__init__(self, group._bench, group.id)

    async def wait_until(
        self,
        *,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109  # the error lists unmet conditions
        **wanted: Unpack[Conditions],
    ) -> GroupNow:
        """See `Group.wait_until`."""
        __tracebackhide__ = True
        return await Wait(self._bench, self.id, Wanted(wanted)).wait_async(timeout)

    expire = on_thread(Group.expire)
    fence = on_thread(Group.fence)
    rebalance = on_thread(Group.rebalance)


class NoRebalance:
    """See `Group.no_rebalance`."""

    def __init__(self, sights: Sights, group: str) -> None:
        self._sights = sights
        self._group = group
        self._began = 0

    def __enter__(self) -> Self:
        self._began = self._sights.rounds(self._group)[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        rounds, began = self._sights.rounds(self._group)
        count = began - self._began
        if count > 0:
            new = rounds[-count:]
            causes, texts = [each.cause for each in new], [each.text for each in new]
            told = "\n  ".join([", ".join(causes), *texts])
            raise AssertionError(f"group '{self._group}' rebalanced: {told}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)
