"""The life of a group with reserved seats, from a seed: processes that crash, restart, sleep and
wake; a coordinator that crashes between any two records; configs that change meanwhile.

In the end it calms down, and every partition has to find an owner within bounded time.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from groupkeeper.coordinator.policy import (
    GRACE,
    LEFT,
    LOST,
    MATCHES,
    RESERVE_ON,
    SEAT_MATCH,
    Policy,
)
from tests.seats.consumer import REBALANCE_MS, SESSION_MS, Kind, Process
from tests.seats.oracle import Broken, Oracle, unowned
from tests.seats.plans import RANGE, STICKY, TOPICS, places_of
from tests.seats.watched import Watched
from tests.support.scene import GROUP

TICK_MS: Final = 1_000
TICKS: Final = 50
"""Of which each may have a mishap."""
GRACES: Final = (6_000, 15_000, 40_000, 150_000)
RESERVED_ON: Final = (frozenset({LOST}), frozenset({LEFT}), frozenset({LOST, LEFT}))
CLIENTS, HOSTS = ("a", "b", "c"), ("/h1", "/h2")
MOST: Final = 6
"""Living processes."""
SETTLED_MS: Final = 2 * SESSION_MS + 4 * REBALANCE_MS
"""Within so long after the last mishap everything is owned, or reserved."""


MISHAPS: Final[Sequence[tuple[str, int]]] = (
    ("start", 2),
    ("die", 8),
    ("die_in_a_crowd", 1),
    ("sleep", 3),
    ("hang", 2),
    ("sleep_and_be_replaced", 2),
    ("leave", 3),
    ("cut", 2),
    ("subscribe", 2),
    ("give_up", 1),
    ("configure", 2),
    ("crash", 2),
    ("crash_between_records", 4),
    ("slow_disk", 1),
    ("fast_disk", 2),
    ("stall", 1),
    ("rebalance", 1),
)
"""What may happen, and how often in comparison."""


class Life:
    """One seed."""

    mishaps = MISHAPS
    late = 0.0
    """How often processes read answers late."""

    def __init__(self, seed: int, ticks: int = TICKS) -> None:
        self.random = random = Random(seed)
        self.ticks = ticks
        self.policy = self.first_policy()
        self.oracle = self.make_oracle()
        delay = random.choice([0, 0, 3_000])
        self.scene = Watched(self.oracle, policy=self.policy, initial_rebalance_delay_ms=delay)
        self.scene.partition_counts.update(TOPICS)
        self.style = random.choice(["eager", "cooperative", "mixed"])
        self.has_static = random.random() < 0.4
        self.processes: list[Process] = []
        self.was_off = False
        self._count = 0

    def first_policy(self) -> Policy:
        return Policy(*map(self.random.choice, (GRACES, RESERVED_ON, MATCHES)))

    def make_oracle(self) -> Oracle:
        return Oracle(self.policy.grace_ms)

    @property
    def living(self) -> list[Process]:
        return [each for each in self.processes if not each.ended]

    def run(self) -> None:
        for _ in range(self.random.randrange(1, 5)):
            self.start()
        for _ in range(self.ticks):
            self.tick()
            if self.random.random() < 0.4:
                self.mishap()
        if self.style != "eager":
            self.die_between_rounds()
        self.calm_down()

    def say(self, *words: object) -> None:
        self.scene.trace.append(f"{self.scene.now} --- {' '.join(map(str, words))}")

    # -- time --------------------------------------------------------------------------------------

    def tick(self, ms: int = TICK_MS, *, commits: bool = True) -> None:
        """Some time passes, and processes act, in any order, some not."""
        scene, random = self.scene, self.random
        self._check()
        scene.advance(ms if commits else TICK_MS)
        self._check()
        for process in random.sample(self.living, len(self.living)):
            for _ in range(3):
                if random.random() < 0.9 or not commits:
                    process.act(commits=commits)
                    self._check()
        if scene.hold and random.random() < 0.5:
            scene.flush_one()
            self._check()
        self.processes = [each for each in self.processes if not each.ended]

    def _check(self) -> None:
        scene = self.scene
        self.oracle.check_holders(scene.known, self.processes)
        if not scene.partition.has_unwritten and scene.partition.gate.clear:
            self.oracle.check_seats(scene.known)

    # -- mishaps -----------------------------------------------------------------------------------

    def mishap(self) -> None:
        what, weight = zip(*self.mishaps, strict=True)
        [chosen] = self.random.choices(what, weight)
        getattr(self, chosen)()
        self._check()

    def start(self, kind: Kind | None = None) -> None:
        """A process starts."""
        if len(self.living) >= MOST:
            return
        self._count += 1
        kind = kind or self._any_kind()
        process = Process(f"p{self._count}", kind, self.scene, self.random, late=self.late)
        self.processes.append(process)
        self.say("start", process.name, kind)

    def _any_kind(self) -> Kind:
        random = self.random
        eager = self.style == "eager" or (self.style == "mixed" and random.random() < 0.5)
        instance, version = None, random.randrange(10)
        if self.has_static and random.random() < 0.5:
            instance, version = random.choice(["I", "J"]), random.randrange(5, 10)
        first = 0 if self.style == "eager" else 2 if self.has_static else 1
        return Kind(
            random.choice(CLIENTS),
            random.choice(HOSTS),
            RANGE if self.style == "eager" else STICKY,
            eager,
            random.choice([("t",), ("t",), ("t", "u")]) if instance is None else ("t",),
            instance,
            version,
            random.randrange(first, 4),
        )

    def _any(self) -> Process | None:
        """Often one that has just been told to give something up, if there is one."""
        between = [each for each in self.living if each.is_between_rounds]
        if between and self.random.random() < 0.5:
            return self.random.choice(between)
        return self.random.choice(self.living) if self.living else None

    def die(self) -> None:
        """kill -9; the server hears of it, or not; perhaps it is started again, here or there."""
        process, random = self._any(), self.random
        if process is None:
            return
        self.say("die", process.name)
        if random.random() < 0.7:
            process.cut()
        process.end()
        self._come_back(process.kind, random.choice([0, 1, 3, 9, 14]))

    def die_between_rounds(self) -> None:
        """Somebody joins, and one that has just been told to give something up for it dies."""
        self.fast_disk()
        self.start()
        for _ in range(12):
            self.tick()
            between = [each for each in self.living if each.is_between_rounds]
            if between:
                process = self.random.choice(between)
                self.say("die between two rounds", process.name)
                process.cut()
                process.end()
                self._come_back(process.kind, self.random.choice([0, 0, 9, 14]))
                return

    def _come_back(self, kind: Kind, after: int) -> None:
        random = self.random
        for _ in range(after):
            self.tick()
        if random.random() < 0.8:
            host = kind.host if random.random() < 0.7 else random.choice(HOSTS)
            self.start(
                Kind(
                    *(kind.client_id, host, kind.protocol, kind.eager, kind.topics),
                    *(kind.instance_id, kind.join_version, kind.subscription_version),
                )
            )

    def die_in_a_crowd(self) -> None:
        """Several at once."""
        kinds = []
        for process in self.random.sample(self.living, len(self.living) // 2):
            self.say("die", process.name)
            process.end()
            kinds.append(process.kind)
        for _ in range(self.random.choice([2, 9])):
            self.tick()
        for kind in kinds:
            self._come_back(kind, 0)

    def sleep(self) -> None:
        """A process stands still, for longer than its session or not, and goes on."""
        process = self._any()
        if process is not None:
            process.wakes_ms = self.scene.now + self.random.choice([3_000, 9_000, 20_000, 45_000])
            self.say("sleep", process.name, process.wakes_ms)

    def hang(self) -> None:
        """An application does not come back to its client, which beats and does not rejoin."""
        process = self._any()
        if process is not None:
            process.busy_ms = self.scene.now + self.random.choice([4_000, 14_000, 30_000])
            self.say("hang", process.name, process.busy_ms)
            self.rebalance()

    def sleep_and_be_replaced(self) -> None:
        """A process stands still, and another one is started in its place."""
        process = self._any()
        if process is not None:
            process.wakes_ms = self.scene.now + self.random.choice([5_000, 12_000, 30_000])
            self.say("sleep", process.name, process.wakes_ms)
            self._come_back(process.kind, self.random.choice([1, 9, 10]))

    def leave(self) -> None:
        process = self._any()
        if process is None:
            return
        self.say("leave", process.name)
        self.oracle.given_up.add(process.member_id)
        process.leave()
        self._come_back(process.kind, self.random.choice([0, 2, 9]))

    def cut(self) -> None:
        process = self._any()
        if process is not None:
            self.say("cut", process.name)
            process.cut()

    def subscribe(self) -> None:
        process = self._any()
        if process is not None and process.is_awake and process.kind.instance_id is None:
            topics = self.random.choice([("t",), ("t", "u")])
            self.say("subscribe", process.name, topics)
            process.cut()
            process.subscribe(*topics)

    def give_up(self) -> None:
        """An operator gives a seat up."""
        group = self.scene.known
        if group is not None and group.seats:
            member_id = self.random.choice([*group.seats])
            self.say("give up", member_id)
            self.oracle.given_up.add(member_id)
            self.scene.leave_as("admin", (member_id, None))

    def configure(self) -> None:
        random = self.random
        policy = Policy(
            random.choice([0, *GRACES]), random.choice(RESERVED_ON), random.choice(MATCHES)
        )
        self.say("configure", policy)
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        on = ",".join(sorted(policy.reserve_on))
        configs = {GRACE: str(policy.grace_ms), RESERVE_ON: on, SEAT_MATCH: policy.seat_match}
        self.policy, self.oracle.grace_ms = policy, policy.grace_ms
        self.was_off |= not policy.grace_ms
        self.scene.configure(configs)

    def crash(self) -> None:
        """The coordinator dies; what was not durable is gone."""
        self.say("crash")
        self.scene.crash()
        self._back()

    def crash_between_records(self) -> None:
        """While clients go on, batches become durable one by one; then it dies."""
        self.scene.hold = True
        for _ in range(self.random.randrange(1, 4)):
            self.tick()
        self.crash()
        self.scene.hold = False

    def _back(self) -> None:
        """Grace and policy are those of the log; connections are gone."""
        group_configs = self.scene.partition.groups.configs.get(GROUP)
        grace = None if group_configs is None else group_configs.get(GRACE)
        self.oracle.grace_ms = self.scene.config.policy.grace_ms if grace is None else int(grace)
        for process in self.living:
            process.cut()

    def slow_disk(self) -> None:
        self.scene.hold = True

    def fast_disk(self) -> None:
        self.scene.hold = False
        self.scene.flush()

    def stall(self) -> None:
        self.scene.stop(self.random.choice([2_000, 15_000]))

    def rebalance(self) -> None:
        group = self.scene.known
        if group is not None and group.members and str(group.state) == "Stable":
            self.scene.force_rebalance()

    # -- the end -----------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Everybody is awake and does what it is told."""
        self.say("calm")
        self.fast_disk()
        for process in self.living:
            process.wakes_ms = process.busy_ms = 0
        if not self.living:
            self.start()
        self.assign_what_is_left()
        wanted = set(places_of({t for each in self.living for t in each.kind.topics}))
        self.until(lambda: self._is_settled(wanted, seats=True), SETTLED_MS)
        if self.policy.grace_ms:
            wait = self.oracle.grace_ms
            self.until(lambda: self._is_settled(wanted, seats=False), wait, must=False)
        self.until(lambda: self._is_settled(wanted, seats=False), SETTLED_MS)

    def assign_what_is_left(self) -> None:
        """Without a policy, a static member that was back between two rounds leaves partitions to
        nobody until the next rebalance, as in Kafka.
        """
        if self.was_off and self.has_static:
            self.until(lambda: all(each.joined for each in self.living), SETTLED_MS, must=False)
            self.rebalance()

    def until(self, holds: Callable[[], bool], ms: int, *, must: bool = True) -> None:
        """Let time go by until this holds."""
        until = self.scene.now + ms
        while self.scene.now < until and not holds():
            if not self.living:  # all were fenced
                self.start()
            self.tick(commits=False)
        if must and not holds():
            raise Broken(f"not settled: {self.state()}")

    def _is_settled(self, wanted: set[Any], *, seats: bool) -> bool:
        group = self.scene.known
        if group is None or str(group.state) != "Stable" or (group.seats and not seats):
            return False
        left = unowned(group, self.processes, wanted)
        return not left and all(each.joined for each in self.living)

    def state(self) -> str:
        group = self.scene.known
        if group is None:
            return "no group"
        held = {each.name: (each.member_id, sorted(each.held)) for each in self.living}
        return f"{group.state}, members {[*group.members]}, seats {[*group.seats]}, {held}"
