"""One epoch of fuzzing: a data directory's life in rounds, each of some hundred operations.

Every operation is decided by its own number and the epoch's seed, so an epoch can be run again
with some of its operations left out. After each round all is cleaned away, and what should be gone
must be gone, memory included.
"""

import errno
import sys
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from random import Random

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.registry import APIS, request_decoder, response_encoder
from tests.fuzz.bystander import Bystander
from tests.fuzz.cleaning import Cleaning
from tests.fuzz.foreign import write_foreign_logs
from tests.fuzz.life import Finding, Life
from tests.fuzz.mutations import mutated, random_bytes
from tests.fuzz.peer import Peer, Rules
from tests.fuzz.requests import Maker, next_key, next_version
from tests.fuzz.town import Person, Town
from tests.simulation.cluster import ADDRESS
from tests.support import invariants
from tests.support.accounts import check_accounts
from tests.support.codecs import request_encoder, response_decoder
from tests.support.fake_files import FakeFiles
from tests.support.messages import all_cases, random_message
from tests.support.oracle import oracle_body

PARTITIONS = 3
PEERS = 16
CHECK_EVERY = 25
WARM_UP_ROUNDS = 3
GROWTH_BLOCKS = 2_500
"""Objects that a server may have more after all rounds than after the first ones: indexes of logs,
which grow with the data. What leaks with every operation is more."""

ACTIONS = {
    "ask": 640,
    "damage": 130,
    "noise": 25,
    "burst": 30,
    "wait": 90,
    "wait longer": 30,
    "wait minutes": 4,
    "wait a day": 1,
    "hang up": 20,
    "look": 12,
    "kill": 2,
    "stop": 1,
    "power": 2,
    "fault": 4,
}
REQUESTS = {"ask", "damage", "noise", "burst"}
TROUBLE = {"kill", "stop", "power", "fault"}


@dataclass
class Figures:
    """What was done, and what it took."""

    operations: int = 0
    frames: int = 0
    damaged: int = 0
    answers: int = 0
    starts: int = 0
    faults: int = 0
    rounds: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    blocks: list[int] = field(default_factory=list)
    """Memory blocks of the interpreter after each round of the process that lives now."""
    slowest: tuple[float, int] = (0.0, 0)
    """Seconds that one request or one burst of them took, and which operation that was."""


@dataclass(frozen=True)
class Size:
    """How long an epoch is."""

    rounds: int = 12
    operations: int = 400
    """In each round."""


class Epoch:
    """A seed's worth of fuzzing."""

    def __init__(
        self, seed: int, size: Size | None = None, kept: Collection[int] | None = None
    ) -> None:
        """`kept`: the numbers of the operations to do; all of them without."""
        self.seed = seed
        self.size = size or Size()
        self.figures = Figures()
        self.operation = 0
        """The number of the operation under way."""
        self._kept = kept
        chance = Random(f"epoch {seed}")
        self.troubled = seed % 3 != 0
        """Whether processes die and disks fail; where they do not, memory is watched longest."""
        self.life = Life(seed, *_settings(chance))
        self._town = Town("none", chance)
        self._peers: list[Peer] = []
        self.life.ending.append(self._hang_up_on_all)

    def run(self) -> Figures:
        """All rounds. Raises Finding, or whatever else the server made happen."""
        try:
            self._begin_with_foreign_groups()
            self.life.start()
            self.life.settle()
            self._bystander = Bystander(self.life)
            self._bystander.arrive()
            for number in range(self.size.rounds):
                self._round(number)
        finally:
            self.figures.starts, self.figures.faults = self.life.starts, self.life.faults
            self.life.close()
        return self.figures

    def _begin_with_foreign_groups(self) -> None:
        """The groups of the first round are in a log that another program wrote."""
        files, groups = FakeFiles(self.life.disk), self._town_of(0).groups
        chance = Random(f"foreign {self.seed}")
        write_foreign_logs(files, str(self.life.machine.data_dir), PARTITIONS, groups, chance)

    def _town_of(self, number: int) -> Town:
        return Town(f"r{number}", Random(f"town {self.seed} {number}"))

    def _round(self, number: int) -> None:
        self._town = self._town_of(number)
        self._bystander.make_topics(self._town.topics[:3])
        first = number * self.size.operations
        for operation in range(first, first + self.size.operations):
            self.operation = operation
            if self._kept is None or operation in self._kept:
                self._step(Random(f"{self.seed} {operation}"))
        self._end_round()
        self.figures.rounds += 1

    # -- operations ------------------------------------------------------------------------------

    def _step(self, chance: Random) -> None:
        [action] = chance.choices(list(ACTIONS), list(ACTIONS.values()))
        if action in TROUBLE and not self.troubled:
            action = "ask"
        self.figures.operations += 1
        self.figures.actions[action] += 1
        began = time.perf_counter()
        ACTIONS_DONE[action](self, chance)
        if chance.random() < 0.7:
            self.life.advance(chance.choice([0.0, 0.003, 0.003, 0.01]))
        if action in REQUESTS:
            took = time.perf_counter() - began, self.operation
            self.figures.slowest = max(self.figures.slowest, took)
        if self.life.server.failed.done():
            self.life.kill()
        if self.operation % CHECK_EVERY == 0:
            self._check()
        self._heed_notes()

    def _ask(self, chance: Random) -> None:
        person = chance.choice(self._town.people)
        self._send(chance, self._frame(chance, person), person)

    def _damage(self, chance: Random) -> None:
        person = chance.choice(self._town.people)
        frame = mutated(chance, self._frame(chance, person), self._town.frames)
        self.figures.damaged += 1
        self._send(chance, frame, None)

    def _noise(self, chance: Random) -> None:
        keys = list(self._rules().routes)
        self.figures.damaged += 1
        self._send(chance, random_bytes(chance, keys), None)

    def _burst(self, chance: Random) -> None:
        """Several frames in one write, perhaps one of them damaged."""
        person = chance.choice(self._town.people)
        frames = [self._frame(chance, person) for _ in range(chance.randint(2, 6))]
        if chance.random() < 0.3:
            frames[-1] = mutated(chance, frames[-1], self._town.frames)
        self._send(chance, b"".join(frames), None)

    def _frame(self, chance: Random, person: Person) -> bytes:
        key = next_key(chance, person, list(self._rules().routes))
        version = next_version(chance, person, key)
        request = Maker(chance, self._town, person, version).message(APIS[key].request_type)
        correlation_id = chance.choice([self.operation, chance.getrandbits(31), -1])
        frame = request_encoder(key, version)(request, correlation_id, person.client_id)
        self._town.frames.append(frame)
        self.figures.frames += 1
        return frame

    def _send(self, chance: Random, data: bytes, person: Person | None) -> None:
        self._peer(chance).send(data, person)

    def _peer(self, chance: Random) -> Peer:
        """A connection, mostly one that owes nothing; a new one when there are few."""
        usable = [peer for peer in self._peers if peer.usable]
        idle = [peer for peer in usable if not peer.owed]
        if len(usable) < PEERS and (not idle or chance.random() < 0.05):
            self._peers.append(Peer(self._rules(), self._town, Random(chance.getrandbits(30))))
            self.life.loop.dial(ADDRESS, self._peers[-1])
            return self._peers[-1]
        return chance.choice(idle if idle and chance.random() < 0.9 else usable)

    def _rules(self) -> Rules:
        services = self.life.server.listener._services
        most = services.limits.request_bytes
        return Rules(services.routes, most, self.life.note, self.life.loop.time)

    def _wait(self, chance: Random) -> None:
        self.life.advance(chance.choice([0.02, 0.05, 0.2, 1.0]))

    def _wait_longer(self, chance: Random) -> None:
        self.life.advance(chance.choice([1.0, 3.0, 5.1, 10.1, 31.0]))

    def _wait_minutes(self, chance: Random) -> None:
        self._pass_time(chance.choice([61, 305, 900]))

    def _wait_a_day(self, chance: Random) -> None:
        self.life.heal()
        self._pass_time(86_400)

    def _pass_time(self, seconds: int) -> None:
        for _ in range(seconds // 1_200 + 1):
            self._bystander.beat()
            self.life.advance(min(seconds, 1_200))

    def _hang_up(self, chance: Random) -> None:
        usable = [peer for peer in self._peers if not peer.hung_up]
        if usable:
            chance.choice(usable).hang_up()

    def _look(self, chance: Random) -> None:
        self._bystander.check()

    # -- trouble ---------------------------------------------------------------------------------

    def _kill(self, chance: Random) -> None:
        self.life.kill()

    def _power(self, chance: Random) -> None:
        self.life.cut_power(chance.choice(["lose", "tear", "keep", "names"]))

    def _stop(self, chance: Random) -> None:
        self.life.settle()
        for peer in self._peers:
            peer.excused = True
        self.life.stop()

    def _fault(self, chance: Random) -> None:
        match chance.randrange(3):
            case 0:
                self.life.fill_disk(chance.choice([0, 100, 2_000]))
            case 1:
                self.life.heal()
            case _:
                code = chance.choice([errno.EIO, errno.ENOSPC])
                self.life.break_disk(OSError(code, "injected"), chance.randint(1, 12))

    def _hang_up_on_all(self) -> None:
        """Nothing is owed any more."""
        for peer in self._peers:
            peer.hang_up()
        self.figures.answers += sum(peer.answered for peer in self._peers)
        self._peers.clear()

    # -- what must hold --------------------------------------------------------------------------

    def _check(self) -> None:
        """At any time: invariants, and every request under way held exactly once."""
        server, topics = self.life.server, self.life.server.topics
        if topics.response_tasks._tasks:
            self.life.advance(0.1)
        for driver in server.group_partitions:
            if driver.snapshot().state == "loading":
                continue  # its groups may be there already, and their sessions not yet
            partition = driver._partition
            held = invariants.held_by_all(partition)
            invariants.check(partition, held + partition.gate.parked)
        if not topics.response_tasks._tasks and not topics.admin._deletions:
            check_accounts(server)
        self.life.check_partitions()
        self._peers = [peer for peer in self._peers if not self._is_over(peer)]

    def _is_over(self, peer: Peer) -> bool:
        if peer.closed:
            self.figures.answers += peer.answered
        return peer.closed

    def _heed_notes(self) -> None:
        if self.life.notes:
            raise Finding("\n".join(self.life.notes))

    def _end_round(self) -> None:
        life = self.life
        life.settle()
        self._bystander.check()
        self._check()
        if self.troubled and Random(f"{self.seed} {self.operation} end").random() < 0.4:
            self._compare_with_log()
        cleaning = Cleaning(life, self._bystander)
        cleaning.remove_groups(self._peers)
        self._hang_up_on_all()
        cleaning.remove_topics()
        cleaning.let_fetches_end()
        life.advance(1)
        self._check()
        cleaning.check_nothing_is_left()
        self._heed_notes()
        self._check_memory()

    def _compare_with_log(self) -> None:
        """What the log says after a restart is what was there before."""
        before = self.life.groups()
        self.life.kill()
        self.life.settle()
        nothing = ({}, None)
        most = self.life.machine.settings.group_max_size
        for group_id, (offsets, members) in self.life.groups().items():
            was = before.pop(group_id, None)
            rejoins = was is not None and was[1] is not None and len(was[1][1]) > most
            if was is None or offsets != was[0] or (was[1] not in (None, members) and not rejoins):
                raise Finding(f"a restart changes a group\n{was}\n{offsets} {members}")
        if any(lost != nothing for lost in before.values()):
            raise Finding(f"a restart loses groups\n{before}")

    def _check_memory(self) -> None:
        self.life.server.group_partitions._placed.clear()  # a cache with a limit of its own
        self.life.tidy()
        blocks = self.figures.blocks
        if len(blocks) and self.life.starts != self.figures.starts:
            blocks.clear()
        self.figures.starts = self.life.starts
        blocks.append(sys.getallocatedblocks())
        if len(blocks) > WARM_UP_ROUNDS:
            base = max(blocks[:WARM_UP_ROUNDS])
            if blocks[-1] > base + GROWTH_BLOCKS:
                raise Finding(f"memory grows: blocks after each round {blocks}")


ACTIONS_DONE = {
    "ask": Epoch._ask,
    "damage": Epoch._damage,
    "noise": Epoch._noise,
    "burst": Epoch._burst,
    "wait": Epoch._wait,
    "wait longer": Epoch._wait_longer,
    "wait minutes": Epoch._wait_minutes,
    "wait a day": Epoch._wait_a_day,
    "hang up": Epoch._hang_up,
    "look": Epoch._look,
    "kill": Epoch._kill,
    "stop": Epoch._stop,
    "power": Epoch._power,
    "fault": Epoch._fault,
}


@cache
def compile_codecs() -> None:
    """Every codec is made at its first use, kafka-python's too; make them now, so that memory tells
    of the rest.
    """
    for cls, version in all_cases():
        message = random_message(cls, version, "tagged")
        encoder(cls, version, Framing.BARE)(message)
        oracle_body(message, version)
    for key, api in APIS.items():
        for version in range(api.served[0], api.served[1] + 1):
            for make in (request_decoder, request_encoder, response_decoder, response_encoder):
                make(key, version)


def _settings(chance: Random) -> list[str]:
    """One of the configurations that matter."""
    return [
        f"offsets.topic.num.partitions={PARTITIONS}",
        "offsets.retention.minutes=10",
        "offsets.retention.check.interval.ms=60000",
        f"group.initial.rebalance.delay.ms={chance.choice([0, 0, 3000])}",
        f"group.min.session.timeout.ms={chance.choice([100, 6000])}",
        f"group.max.size={chance.choice([2, 4, 100])}",
        f"offsets.topic.segment.bytes={chance.choice([5_000, 100_000, 10_000_000])}",
        f"log.segment.bytes={chance.choice([3_000, 100_000, 10_000_000])}",
        f"message.max.bytes={chance.choice([2_000, 1_048_588])}",
        f"socket.request.max.bytes={chance.choice([70_000, 1 << 20, 100 << 20])}",
        "connections.max.idle.ms=-1",  # nobody is hung up on but for what it sent
    ]
