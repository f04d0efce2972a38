"""One run: the clients settle, then the server is killed and restarted under them, again and again.

After every start everything that was acknowledged is asked for, and the groups must have the
members and the generation of before. Nothing here helps a client.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from tests.chaos.damage.truth import Group, Look, Loss, Truth, look
from tests.chaos.wire import Client
from tests.clients.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3, Library
from tests.kills import compaction
from tests.kills.compaction import Compactions
from tests.kills.crowd import (
    PARTITIONS,
    TOPIC,
    Administrator,
    Committer,
    Consumer,
    Java,
    Producer,
    Raw,
)
from tests.kills.ledger import Ledger
from tests.kills.once import ONCE, Once
from tests.support.process import Server
from tests.support.requests import create_request, heartbeat

OFFSETS_PARTITIONS = 12
"""So few that each has groups that commit all the time, whose commits roll and compact its log."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}
UP_SECONDS = (0.05, 1.2)
"""How long a server lives after its start was checked."""
HALF_STARTED = 0.1
"""So often it is killed once more before it is ready."""
HALF_SECONDS = (0.03, 0.4)
SETTLE_SECONDS = 60.0
STILL_SECONDS = 3.0
"""Nobody moved for so long: longer than ten heartbeats."""
GOING_ON_SECONDS = 60.0
"""Within this every client commits again after the last start."""
LOAD_SECONDS = 30.0
"""For a partition to be read after a start."""
MOST_GENERATIONS = 1_000
STARTED = re.compile(r"rebalance started")

Say = Callable[[str], None]


class NotSettled(Exception):
    """The clients could not begin, so that there is nothing to kill under them."""


@dataclass(frozen=True)
class Plan:
    """What is run. `raw`: groups without a library; `once`: groups that commit once; `java`: class
    path of Kafka's tools; `compacts`: the server compacts its logs all the time.
    """

    kills: int = 200
    seed: int = 9
    libraries: Sequence[Library] = (AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3)
    administrators: Sequence[Library] = (CONFLUENT, KAFKA_PYTHON_3)
    raw: int = 10
    once: int = 400
    java: list[str] | None = None
    checkout: Path | None = None
    compacts: bool = True


@dataclass
class Report:
    """What happened."""

    kills: int = 0
    half_started: int = 0
    commits: int = 0
    stored: int = 0
    once: int = 0
    """Groups that committed once and were there in the end."""
    deleted: int = 0
    """Groups that committed once and were deleted."""
    losses: list[str] = field(default_factory=list)
    rebalances: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    """Clients that did not go on by themselves."""
    compactions: int = 0
    """That came to their end, in all lives of the server."""
    interrupted: dict[str, int] = field(default_factory=dict)
    """Kills in the middle of one, by the files that it left."""
    unclean: list[str] = field(default_factory=list)
    """There were too few compactions, or something was left of them."""
    slowest_start: float = 0.0
    """Seconds from exec to the ready line."""
    loads: list[float] = field(default_factory=list)
    """Seconds from each ready line until every group was served and had been checked."""
    slowest_recovery: tuple[float, str] = (0.0, "")
    """From a ready line to a client's next commit, over further kills if there were any."""
    seconds: float = 0.0
    commits_by: dict[str, int] = field(default_factory=dict)
    recovery_by: dict[str, float] = field(default_factory=dict)
    errors_by: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        return bool(self.losses or self.rebalances or self.stuck or self.unclean)


def run(plan: Plan, folder: Path, say: Say = lambda _: None) -> Report:
    """Raises NotSettled, and AssertionError if the server does not start."""
    settings = {**SETTINGS, **(compaction.SETTINGS if plan.compacts else {})}
    server = Server(folder, settings, plan.checkout)
    server.start()
    running = _Run(plan, server, folder, say)
    try:
        running.begin()
        return running.play()
    finally:
        running.end()
        server.stop()


class _Run:
    def __init__(self, plan: Plan, server: Server, folder: Path, say: Say) -> None:
        self._plan = plan
        self._server = server
        self._folder = folder
        self._say = say
        self._chance = Random(plan.seed)
        self._ledger = Ledger()
        self._clients: list[Committer] = []
        self._report = Report()
        self._address = server.kafka
        self._once = Once(plan.once, plan.seed, self._address, self._ledger)
        self._compactions = Compactions(server.data_dir, server.log, Random(plan.seed))

    # -- before the first kill -------------------------------------------------------------------

    def begin(self) -> None:
        self._say("starting clients")
        self._create_topic()
        address, ledger = self._address, self._ledger
        self._clients.append(Producer(address, ledger))
        raws = [Raw(number, address, ledger) for number in range(self._plan.raw)]
        for raw in raws:
            ledger.settles(raw.group_id, raw.group)
        self._clients += [*raws, self._once]
        self._start_libraries()
        for client in self._clients:
            client.start()
        self._say("waiting until the groups are settled")
        self._settle()

    def _start_libraries(self) -> None:
        bootstrap, ledger = self._server.bootstrap, self._ledger
        for library in self._plan.libraries:
            for instance_id in (f"instance of {library.name}", None):
                log = self._folder / f"{library.name}-{'static' if instance_id else 'dynamic'}.log"
                self._clients.append(Consumer(library, bootstrap, instance_id, log, ledger))
        for library in self._plan.administrators:
            log = self._folder / f"{library.name}-admin.log"
            self._clients.append(Administrator(library, bootstrap, log, ledger))
        if self._plan.java is not None:
            log = self._folder / "java.log"
            self._clients.append(Java(self._plan.java, bootstrap, log, ledger))

    def _create_topic(self) -> None:
        client = Client(self._address)
        answer = client.call(4, create_request(TOPIC, partitions=PARTITIONS))
        assert answer.topics[0].error_code == 0, answer
        answer = client.call(10, MetadataRequest(topics=None))
        topics = {each.name: (each.topic_id, len(each.partitions)) for each in answer.topics}
        topics = {TOPIC: topics[TOPIC]}
        truth = Truth(
            cluster_id=answer.cluster_id, topics=topics, offsets_partitions=OFFSETS_PARTITIONS
        )
        self._ledger.begins(truth)
        client.close()

    @property
    def _committers(self) -> list[str]:
        return [client.name for client in self._clients if not isinstance(client, Producer)]

    @property
    def _sizes(self) -> dict[str, int]:
        """How many members each group of a library has."""
        sizes: dict[str, int] = {}
        for client in self._clients:
            if isinstance(client, Consumer | Java):
                sizes[client.group_id] = sizes.get(client.group_id, 0) + 1
        return sizes

    def _settle(self) -> None:
        """Every group is Stable with all its members, and stays so for a while; and the groups that
        commit once have done so.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        known: dict[str, Group] = {}
        since = time.monotonic()
        while time.monotonic() - since < STILL_SECONDS or not self._all_commit():
            if time.monotonic() > deadline:
                waiting = set(self._committers) - self._ledger.acknowledged.keys()
                raise NotSettled(f"not after {SETTLE_SECONDS:.0f} s: {known}, silent: {waiting}")
            now = self._described()
            if now != known:
                known, since = now, time.monotonic()
            time.sleep(0.1)
        self._know(known)

    def _know(self, groups: dict[str, Group]) -> None:
        for group_id, group in groups.items():
            self._ledger.settles(group_id, group)

    def _all_commit(self) -> bool:
        return self._once.is_full and set(self._committers) <= self._ledger.acknowledged.keys()

    def _described(self) -> dict[str, Group]:
        """Those that are Stable and whole."""
        sizes = self._sizes
        client = Client(self._address)
        answer = client.call(4, DescribeGroupsRequest(groups=list(sizes)))
        found = {}
        for each in answer.groups:
            if each.group_state == "Stable" and len(each.members) == sizes[each.group_id]:
                members = {
                    who.member_id: (who.group_instance_id, bytes(who.member_assignment))
                    for who in each.members
                }
                found[each.group_id] = Group(
                    members, _generation(client, each.group_id, next(iter(members)))
                )
        client.close()
        return found if found.keys() == sizes.keys() else {}

    # -- kills -----------------------------------------------------------------------------------

    def play(self) -> Report:
        report, chance, begun = self._report, self._chance, time.monotonic()
        moves = self._moves()
        lines = self._rebalances()
        for number in range(1, self._plan.kills + 1):
            self._say(f"kill {number} of {self._plan.kills}, {self._ledger.total} commits")
            self._compactions.wait(*UP_SECONDS)
            self._server.kill()
            report.kills += 1
            self._compactions.killed()
            if chance.random() < HALF_STARTED:
                self._half_start(chance.uniform(*HALF_SECONDS))
            self._restart()
            self._check(f"kill {number}")
        self._say("waiting until every client goes on")
        self._go_on()
        report.rebalances += [
            f"{name} gave partitions back {count - moves[name]} times"
            for name, count in self._moves().items()
            if count != moves[name]
        ]
        if (more := self._rebalances() - lines) > 0:
            report.rebalances.append(f"{more} lines of the log say that one started")
        self._last_look()
        self._look_at_compactions()
        report.seconds = time.monotonic() - begun
        report.commits = self._ledger.total
        report.commits_by = dict(self._ledger.acknowledged)
        report.recovery_by = dict(self._ledger.slowest)
        report.errors_by = dict(self._ledger.errors)
        slowest = [(took, name) for name, took in self._ledger.slowest.items()]
        report.slowest_recovery = max(slowest, default=(0.0, ""))
        return report

    def _half_start(self, seconds: float) -> None:
        self._server.launch()
        time.sleep(seconds)
        self._server.kill()
        self._report.half_started += 1

    def _restart(self) -> None:
        begun = time.monotonic()
        self._server.start()
        self._report.slowest_start = max(self._report.slowest_start, time.monotonic() - begun)
        self._ledger.ready(self._committers)

    def _check(self, when: str) -> None:
        with self._once.still:
            begun = time.monotonic()
            seen = self._look(self._ledger.copy())
        self._report.loads.append(time.monotonic() - begun)
        for loss in seen.losses:
            words = f"{when}: {loss.words}"
            (self._report.rebalances if _moved(loss) else self._report.losses).append(words)
        if any(_moved(loss) for loss in seen.losses):
            self._know(self._described())  # each is told once
        if seen.refused:
            self._report.losses.append(f"{when}: {sorted(seen.refused)} not served")

    def _look(self, promised: Truth) -> Look:
        """Again until every partition is loaded."""
        deadline = time.monotonic() + LOAD_SECONDS
        while True:
            seen = look(self._address, promised)
            if not seen.refused or time.monotonic() > deadline:
                return seen
            time.sleep(0.02)

    def _go_on(self) -> None:
        deadline = time.monotonic() + GOING_ON_SECONDS
        while self._ledger.silent and time.monotonic() < deadline:
            time.sleep(0.1)
        for name in self._ledger.silent:
            self._report.stuck.append(f"{name}: no commit within {GOING_ON_SECONDS:.0f} s")
        for client in self._clients:
            if isinstance(client, Consumer) and client.failed:
                self._report.stuck.append(f"{client.name}: {client.failed}")

    def _last_look(self) -> None:
        """With nobody at work: what the server has, and what it has after a stop and a start."""
        self.end()
        promised = self._ledger.copy(over=True)
        self._server.settings = {**self._server.settings, "log.cleaner.enable": "false"}
        self._report.once = sum(
            bool(group.acknowledged) and name.startswith(ONCE)
            for name, group in promised.groups.items()
        )
        self._report.deleted = self._once.deleted
        self._report.stored = sum(map(len, promised.records.values()))
        for when in ("at the end", "after a clean stop"):
            # Its members are no longer there to beat, so a group may have begun to change.
            for loss in self._look(promised).losses:
                if not _moved(loss):
                    self._report.losses.append(f"{when}: {loss.words}")
            self._server.stop()
            self._server.start()

    def _look_at_compactions(self) -> None:
        """The last starts, which compact nothing, have removed or completed what kills left."""
        report, compactions = self._report, self._compactions
        report.compactions, report.interrupted = compactions.ended, dict(compactions.interrupted)
        if left := compactions.unfinished():
            report.unclean.append(f"files are left: {sorted(left)}")
        if self._plan.compacts and (too_few := compactions.too_few(report.kills)):
            report.unclean.append(too_few)

    def _moves(self) -> dict[str, int]:
        return {client.name: client.moves for client in self._clients}

    def _rebalances(self) -> int:
        return len(STARTED.findall(self._server.log.read_text(errors="replace")))

    def end(self) -> None:
        for client in self._clients:
            client.over.set()
        for client in self._clients:
            client.end()


def _moved(loss: Loss) -> bool:
    """It is no commit that is missing: a group is in another generation, or has other members."""
    return loss.words.startswith(("members of", "heartbeat in"))


def _generation(client: Client, group_id: str, member_id: str) -> int:
    """Which one a group is in: the one that a heartbeat is taken for. -1 if it is changing."""
    for generation in range(1, MOST_GENERATIONS):
        request = heartbeat(member_id, generation, group_id)
        error = client.call(3, request).error_code
        if error != ErrorCode.ILLEGAL_GENERATION:
            return generation if error == 0 else -1
    return -1


def words(report: Report) -> list[str]:
    """Lines for a person."""
    took, who = report.slowest_recovery
    seconds = f"{report.seconds:.0f}"
    loads = report.loads or [0.0]
    lines = [
        f"{report.kills} kills under load, {report.half_started} during a start, in {seconds} s",
        f"{report.commits} commits acknowledged, {report.stored} records",
        f"{report.once} groups that committed once, {report.deleted} more that were deleted",
        f"{len(report.losses)} losses",
        f"{len(report.rebalances)} rebalances",
        f"{report.compactions} compactions",
        f"{report.interrupted.get('cleaned', 0)} kills while one was written",
        f"{report.interrupted.get('swap', 0)} kills while one was put into place",
        f"slowest recovery {took:.1f} s ({who})",
        f"slowest start {report.slowest_start:.2f} s",
        f"from a ready line until all is served {median(loads):.2f} s, at worst {max(loads):.2f}",
        "",
        f"{'client':32} {'commits':>8} {'slowest s':>9}  errors its user saw",
    ]
    for name, count in report.commits_by.items():
        errors = ", ".join(f"{n} {error}" for error, n in report.errors_by.get(name, {}).items())
        lines.append(f"{name:32} {count:8} {report.recovery_by.get(name, 0.0):9.1f}  {errors}")
    lines += [f"LOST {each}" for each in report.losses[:20]]
    lines += [f"REBALANCE {each}" for each in report.rebalances[:20]]
    lines += [f"STUCK {each}" for each in report.stuck]
    lines += [f"UNCLEAN {each}" for each in report.unclean]
    return lines
