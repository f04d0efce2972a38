"""`python -m tests.truth losses`: the topic of an Apache Kafka loses records beside an observer.

Records are deleted while the observer stands still; the topic is deleted and created anew; and an
unclean election makes the log shorter, and then longer than it was, before the observer looks. Each
has to be told as such, and groups after it have to be told again. Exit code 1: one is not.
"""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import gt
from pathlib import Path
from typing import Any, Final

from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.watch.partition import HISTORY_LOST
from groupkeeper.watch.tail import DELETED, RECREATED, TRUNCATED
from tests.kills.passing_groups import PassingGroups, create_topic
from tests.support.requests import alter_topic_request, delete_topic_request, list_request
from tests.support.stored_events import events_on_disk
from tests.support.wire import Address, connect
from tests.truth.observed.cluster import OFFSETS_PARTITIONS, Cluster
from tests.truth.observed.observers import Observer

LOAD_S: Final = 6.0
"""So long groups come and go before and after what is lost."""
AWAY_S: Final = 120.0
"""Within this time a cluster goes on, and an observer notices."""
PAUSE_S: Final = 0.5
EARLIEST, LATEST = -2, -1
SETTINGS: Final = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
REQUEST_S: Final = 10.0


class Loss:
    """A cluster under load, and an observer beside it."""

    def __init__(self, folder: Path, brokers: int, stack: ExitStack) -> None:
        self.cluster = Cluster(folder, brokers, SETTINGS)
        stack.callback(self.cluster.stop)
        self.cluster.start()
        self.addresses: list[Address] = [("127.0.0.1", port) for port in self.cluster.ports]
        create_topic(self.addresses)
        self.observer = Observer(self.cluster.bootstrap, folder / "observer")
        stack.callback(self.observer.kill)
        self.observer.start()
        self._numbers = 0

    @contextmanager
    def load(self) -> Iterator[None]:
        """Groups come and go meanwhile."""
        over = threading.Event()
        threads = [
            PassingGroups(number, self._numbers + 1, self.addresses, over, f"{self._numbers}-")
            for number in range(2)
        ]
        self._numbers += 1
        for each in threads:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in threads:
                each.join()

    def ask(self, version: int, request: Any, broker: int = 0) -> Any:
        """The answer of a broker."""
        with connect(self.addresses[broker], REQUEST_S) as client:
            return client.call(version, request)

    def stands_still(self) -> None:
        """Let the observer do nothing, until `goes_on`."""
        assert self.observer.process is not None
        self.observer.process.send_signal(signal.SIGSTOP)

    def goes_on(self) -> None:
        """Let the observer run again."""
        assert self.observer.process is not None
        self.observer.process.send_signal(signal.SIGCONT)

    def alter(self, **configs: Any) -> None:
        """Change configs of the topic."""
        answer = self.ask(1, alter_topic_request(GROUP_TOPIC, **configs))
        assert not answer.responses[0].error_code, answer

    def ends(self, broker: int = 0, at: int = LATEST) -> list[int]:
        """The ends, or starts, of all partitions that a broker leads; -1 for others."""
        found = []
        for number in range(OFFSETS_PARTITIONS):
            answer = self.ask(5, list_request(GROUP_TOPIC, number, at), broker)
            [row] = answer.topics[0].partitions
            found.append(-1 if row.error_code else row.offset)
        return found

    def judged(self, why: str) -> str:
        """What is wrong; empty if nothing is."""
        self.observer.stop()
        events = [each for some in events_on_disk(self.observer.data).values() for each in some]
        losses = {str(each.fields["why"]) for each in events if each.type == HISTORY_LOST}
        if losses != {why}:
            return f"it told {sorted(losses) or 'of no loss'} instead of {why!r}"
        last = f"{self._numbers - 1}-"
        after = [each for each in events if (each.group or "").startswith(f"passing-{last}")]
        if not any(each.type == "rebalance_completed" for each in after):
            return "it told nothing of the groups that came later"
        return ""


def _await(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + AWAY_S
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(PAUSE_S)


def _loses(loss: Loss) -> None:
    """Wait until the observer tells of a loss, and then let groups come and go."""
    _await(lambda: "history is lost" in loss.observer.log.read_text(), "no loss is told")
    with loss.load():
        time.sleep(LOAD_S)
    time.sleep(2)


def deleted(folder: Path, stack: ExitStack) -> str:
    """Records are deleted while the observer stands still."""
    loss = Loss(folder, 1, stack)
    with loss.load():
        time.sleep(LOAD_S)
        loss.stands_still()
        time.sleep(LOAD_S)
    starts = loss.ends(at=EARLIEST)
    # Kafka refuses DeleteRecords for this topic.
    loss.alter(cleanup_policy="delete", retention_ms=1_000)
    _await(lambda: all(map(gt, loss.ends(at=EARLIEST), starts)), "no records are deleted")
    loss.alter(cleanup_policy="compact", retention_ms=None)
    loss.goes_on()
    _loses(loss)
    return loss.judged(DELETED)


def recreated(folder: Path, stack: ExitStack) -> str:
    """The topic is deleted, and created anew."""
    loss = Loss(folder, 1, stack)
    with loss.load():
        time.sleep(LOAD_S)
    answer = loss.ask(6, delete_topic_request(GROUP_TOPIC))
    assert not answer.responses[0].error_code, answer
    _await(lambda: loss.cluster.is_coordinating(0), "no coordinator after the topic was deleted")
    _loses(loss)
    return loss.judged(RECREATED)


def unclean(folder: Path, stack: ExitStack) -> str:
    """A broker that lacks records is elected, and the log grows past the end that it had."""
    loss = Loss(folder, 3, stack)
    loss.alter(unclean_leader_election_enable="true")
    brokers = loss.cluster.brokers
    with loss.load():
        time.sleep(LOAD_S)
        for each in brokers[1:]:
            each.kill()
        time.sleep(2 * LOAD_S)
        _await(lambda: -1 not in loss.ends(), "broker 0 does not lead all partitions")
        kept = loss.ends()
        _await(lambda: all(map(gt, loss.ends(), kept)), "nothing can be lost")
    time.sleep(2)
    before = loss.ends()
    loss.stands_still()
    brokers[0].kill()
    for each in brokers[1:]:
        each.start()
    for number in (1, 2):
        loss.cluster.await_ready(number)

    def has_grown() -> bool:
        now = [max(pair) for pair in zip(loss.ends(1), loss.ends(2), strict=True)]
        return all(map(gt, now, before))

    with loss.load():
        _await(has_grown, "the logs do not grow")
    loss.goes_on()
    _loses(loss)
    return loss.judged(TRUNCATED)


PLAYS: Final = (deleted, recreated, unclean)


def main(words: list[str]) -> int:
    """Play those with one of these words in their name, or all."""
    wrong = 0
    for play in PLAYS:
        if words and play.__name__ not in words:
            continue
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="groupkeeper-losses-") as name,
            ExitStack() as stack,
        ):
            try:
                problem = play(Path(name), stack)
            except AssertionError as error:
                problem = str(error)
        wrong += bool(problem)
        seconds = time.monotonic() - began
        print(f"{play.__name__}: {problem or 'right'}, {seconds:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
