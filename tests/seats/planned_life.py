"""The life of a group with any policies, from a seed: as in `tests.seats.life`, and topics get more
and fewer partitions, and clients repeat requests and read answers late.

In the end it calms down: within bounded time every partition is owned by a member that is to have
some, and then nobody is asked for anything any more.
"""

from dataclasses import replace
from typing import Final

from groupkeeper.coordinator.facts import MemberRemoved, RebalanceStarted
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.policy import OFF, REFUSE, STAND_BY, Policy, policy_of
from groupkeeper.coordinator.standby import planning_policy
from groupkeeper.protocol.embedded import count_assigned
from groupkeeper.protocol.group_events import CauseCode
from tests.seats.consumer import REBALANCE_MS, SESSION_MS, Kind, Process
from tests.seats.life import MISHAPS, SETTLED_MS, TICK_MS, Life
from tests.seats.oracle import Broken, accepts, assigned, unowned
from tests.seats.planned_oracle import PlannedOracle
from tests.seats.plans import STICKY, places_of
from tests.seats.policies import INSTANCES, changed, drawn, names
from tests.support.scene import GROUP

STEPS_MS: Final = 60_000
"""Of moves one by one."""
QUIET_MS: Final = 20_000
"""So long nothing may happen in the end."""
EXCUSED_MS: Final = REBALANCE_MS + SESSION_MS
"""So long after a trouble a process may be removed as late."""


class PlannedLife(Life):
    """One seed."""

    mishaps = (*MISHAPS, ("configure", 4), ("grow", 4), ("repeat", 5))
    late = 0.1

    def __init__(self, seed: int) -> None:
        self.troubled_ms = self.seen = 0
        self.has_crashed = False
        super().__init__(seed)
        self.oracle: PlannedOracle
        for name in names(self.policy):
            self.oracle.count(f"life with {name}")
        self.has_static |= bool(self.policy.expected)

    def first_policy(self) -> Policy:
        return drawn(self.random)

    def make_oracle(self) -> PlannedOracle:
        return PlannedOracle(_least_grace(self.policy))

    # -- processes ---------------------------------------------------------------------------------

    def _any_kind(self) -> Kind:
        kind, random, policy = super()._any_kind(), self.random, self.policy
        if policy.remote_assignor and random.random() < 0.7:
            kind = replace(kind, topics=("t",))
        if kind.instance_id is not None or (policy.unexpected == REFUSE and policy.expected):
            ids = sorted(policy.expected) or INSTANCES
            instance = random.choice(ids if random.random() < 0.8 else INSTANCES)
            version = max(kind.join_version, 5)
            kind = replace(kind, instance_id=instance, topics=("t",), join_version=version)
        return kind

    def _check(self) -> None:
        super()._check()
        scene, policy = self.scene, self.scene.known and planning_policy(self.scene.known)
        self.oracle.check_size(scene.known, self.living, policy.target_size if policy else 0)
        facts, self.seen = scene.facts[self.seen :], len(scene.facts)
        for each in facts:
            if isinstance(each.fact, MemberRemoved):
                self._check_removed(each.fact)

    def _check_removed(self, fact: MemberRemoved) -> None:
        """Who is well and does what it is told is not removed as late."""
        if fact.cause.code is not CauseCode.JOIN_TIMEOUT or self.scene.hold:
            return
        for process in self.living:
            troubles = process.wakes_ms, process.busy_ms, process.cut_ms, self.troubled_ms
            is_well = process.is_awake and max(troubles) + EXCUSED_MS < self.scene.now
            if process.member_id == fact.who.member and is_well:
                raise Broken(f"{process.name} is removed, and did what it was told")

    # -- mishaps -----------------------------------------------------------------------------------

    def grow(self) -> None:
        """A topic gets more partitions, or fewer; perhaps the leader notices."""
        counts, random = self.scene.partition_counts, self.random
        topic = random.choice(["t", "t", "u"])
        counts[topic] = max(1, min(9, counts[topic] + random.choice([-2, -1, 1, 2, 3])))
        self.say("partitions", topic, counts[topic])
        if random.random() < 0.5:
            self._leader_notices()

    def _leader_notices(self) -> None:
        group = self.scene.known
        for process in self.living:
            if group is not None and process.member_id == group.leader_id and process.joined:
                self.say("notices", process.name)
                process.rejoin()

    def repeat(self) -> None:
        process = self._any()
        if process is not None and process.is_awake and process.joined:
            self.say("repeat", process.name)
            process.rejoin()

    def configure(self) -> None:
        policy = changed(self.policy, self.random)
        self.say("configure", policy)
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        self.policy = policy
        self.was_off |= not policy.is_on
        self.oracle.grace_ms = _least_grace(policy)
        self.oracle.count("policies changed")
        self.scene.configure(policy.as_configs())

    def _back(self) -> None:
        configs = self.scene.partition.groups.configs.get(GROUP, {})
        self.policy = policy_of(configs, self.scene.config.policy) or OFF
        self.oracle.grace_ms = _least_grace(self.policy)
        self.troubled_ms = self.scene.now
        self.has_crashed = True  # it forgot who waits: they do until the next rebalance
        for process in self.living:
            process.cut()

    def fast_disk(self) -> None:
        super().fast_disk()
        self.troubled_ms = self.scene.now

    def stall(self) -> None:
        super().stall()
        self.troubled_ms = self.scene.now

    # -- the end -----------------------------------------------------------------------------------

    def calm_down(self) -> None:
        self.say("calm")
        self.fast_disk()
        for process in self.living:
            process.wakes_ms = process.busy_ms = 0
        policy = self.policy
        alike = len({each.kind.topics for each in self.living}) < 2
        if not (policy.watch or (policy.remote_assignor and alike)):
            self._leader_notices()
        self.assign_what_is_left()
        waits = 3 * policy.window_ms + policy.min_interval_ms + policy.expected_wait_ms
        seats = max(policy.grace_ms, policy.min_interval_ms, policy.expected_wait_ms, 10_000)
        steps = STEPS_MS if policy.remote_assignor else 0
        for _ in range(SESSION_MS // TICK_MS):  # those that were away may be lost only now
            self.tick(commits=False)
        self.until(self.is_at_rest, SETTLED_MS + waits + seats + steps)
        self._check_quiet()

    def _check_quiet(self) -> None:
        """Nothing happens when nothing happens."""
        before = self._busy()
        until = self.scene.now + QUIET_MS
        while self.scene.now < until:
            self.tick(commits=False)
        if self._busy() != before:
            raise Broken(f"no rest: {before}, {self._busy()}: {self.state()}")
        if not self.is_at_rest():
            raise Broken(f"no longer at rest: {self.state()}")

    def _busy(self) -> tuple[int, int]:
        asks = sum(each.told_to_rejoin for each in self.living)
        return len(self.scene.noted(RebalanceStarted)), asks

    def is_at_rest(self) -> bool:
        return self.unrest() == ""

    def unrest(self) -> str:
        """What is not as it has to be in the end."""
        group, living = self.scene.known, self.living
        if group is None or group.state is not GroupState.STABLE or group.seats:
            return "not Stable, or seats"
        if group.window is not None or group.asked:
            return "somebody waits"
        if len(group.members) != len(living) or not all(self._is_in(group, e) for e in living):
            return "somebody is not in"
        active = [each for each in living if each.member_id not in group.standbys]
        topics = {topic for each in active for topic in each.kind.topics}
        wanted = {*places_of(topics, self.scene.partition_counts)}
        if left := unowned(group, living, wanted):
            return f"nobody has {left}"
        if more := {place for each in living for place in each.held} - wanted:
            return f"{more} do not exist"
        return self._unrest_of_policy(group, active)

    def _is_in(self, group: Group, process: Process) -> bool:
        if not process.joined or not accepts(group, process):
            return False
        return process.held == assigned(group.members[process.member_id].assignment)

    def _unrest_of_policy(self, group: Group, active: list[Process]) -> str:
        policy = planning_policy(group) or OFF
        sizes = [len(each.held) for each in active]
        alike = len({each.kind.topics for each in self.living}) == 1
        if any(count_assigned(group.members[each].assignment) for each in group.standbys):
            return "a standby has partitions"
        if policy.target_size and len(active) > policy.target_size:
            return f"{len(active)} are active"
        may_stand_by = policy.target_size or (policy.expected and policy.unexpected == STAND_BY)
        if group.standbys and not may_stand_by:
            return "newcomers stand by"
        most = min(policy.target_size or len(self.living), len(self.living))
        if may_stand_by and alike and not policy.expected and len(active) < most:
            return f"only {len(active)} are active"
        if not active:
            return "all stand by"
        if policy.remote_assignor and alike and max(sizes) - min(sizes) > 1:
            return f"sizes {sizes}"
        is_sticky = group.protocol_name == STICKY and not self.has_crashed
        if alike and is_sticky and 0 in sizes and sum(sizes) >= len(sizes):
            return f"somebody is idle: {sizes}"
        return ""

    def state(self) -> str:
        return f"{self.unrest()}: {self.policy}: {super().state()}"


def _least_grace(policy: Policy) -> int:
    """How long a seat lasts at least: members that are not expected may end theirs."""
    return 0 if policy.expected else policy.grace_ms
