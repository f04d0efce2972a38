"""A group of a test broker, to look at and to wait for: `Group` to call, `AsyncGroup` to await."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self, Unpack

from groupkeeper.testing import arguments, effects, group_control
from groupkeeper.testing.errors import BrokerDown
from groupkeeper.testing.faults.rules import Effect, Rule, When
from groupkeeper.testing.on_thread import OnThread, on_thread
from groupkeeper.testing.views import AssignedPartition, GroupNow, MemberNow, Round, Sights
from groupkeeper.testing.waiting import Conditions, Wait, Wanted

if TYPE_CHECKING:
    from groupkeeper.testing.bench import Bench

TIMEOUT_S: Final = 20.0
"""How long to wait unless a test says otherwise, in seconds of the machine's clock."""


class GroupView:
    """What a group is now. Each attribute asks the broker, which takes a part of a millisecond;
    `now` has all of one moment.
    """

    def __init__(self, bench: "Bench", group_id: str) -> None:
        self._bench = bench
        self.id = arguments.text(group_id, "a group's id")

    @property
    def now(self) -> GroupNow:
        """State, members, offsets, lag and rounds of one moment. Raises BrokerDown, as all here."""
        return self._bench.sights.now(self.id)

    @property
    def exists(self) -> bool:
        """Whether the broker knows the group."""
        return self.now.exists

    @property
    def state(self) -> str:
        """Stable, PreparingRebalance, CompletingRebalance, Empty, or Dead if it does not exist."""
        return self.now.state

    @property
    def generation(self) -> int:
        """-1 if the group does not exist."""
        return self.now.generation

    @property
    def members(self) -> tuple[MemberNow, ...]:
        """With their instance ids and partitions, in the order in which they joined."""
        return self.now.members

    @property
    def assigned(self) -> dict[str, list[int]]:
        """The partitions of all members, by topic; empty unless the group is Stable."""
        return self.now.assigned

    @property
    def committed(self) -> Mapping[AssignedPartition, int]:
        """Committed offsets, by topic and partition."""
        return self.now.committed

    @property
    def lag(self) -> int | None:
        """Records left to read in all partitions that are assigned or committed; None if there is
        no such partition.
        """
        return self.now.lag

    @property
    def lags(self) -> Mapping[AssignedPartition, int]:
        """The same for each partition."""
        return self.now.lags

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Rebalances since the broker's start or reset, the oldest first; the last one may be under
        way.
        """
        return self.now.rounds

    def member(self, name: str) -> MemberNow:
        """The member with this instance id, client id or member id. Raises LookupError."""
        members = self.members
        for each in members:
            if each.is_called(name):
                return each
        names = ", ".join(repr(each.name) for each in members) or "none"
        raise LookupError(f"group '{self.id}' has no member {name!r}; there are: {names}")

    def no_rebalance(self) -> "NoRebalance":
        """Fail if a rebalance begins within a with statement, and say why it did; `async with` does
        the same.

            with group.no_rebalance():
                restart(consumer)
                group.wait_until(committed={("orders", 0): 5})

        Wait for the effect within the statement: what begins after it does not count. Raises
        AssertionError, unless the statement raises.
        """
        return NoRebalance(self._bench.sights, self.id)

    # -- faults: rules for this group, see `Broker.fault` -----------------------------------------

    def hold_joins(self) -> Rule:
        """Keep its JoinGroups until the rule is removed: no rebalance completes.

        with group.hold_joins():
            restart(consumer)
        """
        return self._fault(effects.hold_joins(), {})

    def lose_plan(self) -> Rule:
        """Lose the next SyncGroup with which its leader sends the assignments."""
        return self._fault(effects.lose_plan(), {"times": 1})

    def stale_generation(self) -> Rule:
        """Answer its next JoinGroup with the generation before: that member's next request is
        refused with ILLEGAL_GENERATION.
        """
        return self._fault(effects.stale_generation(), {"times": 1})

    def _fault(self, effect: Effect, when: When) -> Rule:
        return self._bench.faults.add(effect, {**when, "group": self.id})

    def timeline(self) -> str:
        """What happened to the group and why, and what it does now; see `Broker.timeline`."""
        return self._bench.sights.timeline(self.id)

    def __repr__(self) -> str:
        try:
            return repr(self.now)
        except BrokerDown as down:
            return f"<group {self.id!r}: {down}>"


class Group(GroupView):
    """A group, for calls."""

    def wait_until(self, *, timeout: float = TIMEOUT_S, **wanted: Unpack[Conditions]) -> GroupNow:
        """Wait until the group is as wanted, and return it as it was then.

            group.wait_until(stable=True, members=3)

        What can be wanted, at least one and all at one moment, is in `Conditions`. `timeout` is in
        seconds of the machine's clock. The broker may crash and restart meanwhile.
        Raises WaitTimedOut, an AssertionError that says what is not so and what the group does.
        """
        __tracebackhide__ = True
        return Wait(self._bench, self.id, Wanted(wanted)).wait(timeout)

    def expire(self, member: str) -> None:
        """End the session of a member now (all with that member, instance or client id), as if
        nothing had been heard of it for its session timeout: the same cause and numbers. A client
        that runs is answered UNKNOWN_MEMBER_ID, and joins anew.

        Raises RequestFailed, also while its JoinGroup or SyncGroup waits, and BrokerDown.
        """
        self._bench.run(lambda: group_control.expire(self._bench, self.id, member))

    def fence(self, instance_id: str) -> str:
        """Let another process join with an instance id, and end without a word: the client that
        had it is answered FENCED_INSTANCE_ID. No rebalance follows, as the other process keeps
        the partitions, until its session ends (`Broker.advance`), or a client joins with the
        instance id. Returns the other process's member id.

        Raises RequestFailed, also unless the group is Stable, and BrokerDown.
        """
        arguments.text(instance_id, "an instance id")
        return self._bench.run(lambda: group_control.fence(self._bench, self.id, instance_id))

    def rebalance(self, reason: str | None = None) -> None:
        """Force a rebalance, with the cause `operator` and this reason.

        Raises RequestFailed if the group has no members, and BrokerDown.
        """
        if reason is not None:
            arguments.text(reason, "reason")
        self._bench.run(lambda: group_control.rebalance(self._bench, self.id, reason))


class AsyncGroup(OnThread[Group], GroupView):
    """A group, for coroutines: what waits is awaited, looking is not."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        GroupView.__init__(self, group._bench, group.id)

    async def wait_until(
        self,
        *,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109  # says what is not so
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
        if count:
            new = rounds[max(0, len(rounds) - count) :]
            causes, texts = [each.cause for each in new], [each.text for each in new]
            if len(new) < count:
                causes.insert(0, f"{count - len(new)} of which nothing is kept")
            told = "\n  ".join([", ".join(causes), *texts])
            raise AssertionError(f"group '{self._group}' rebalanced: {told}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)
