"""A disk that is slow or hangs when a server stops, and a cleaner that hangs.

What is tried is a server of the attack's own, beside the one that the canary beats on.
"""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.request import urlopen

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.server.stopping import STOP_S
from tests.chaos.altered import program
from tests.chaos.attacks.support import names
from tests.chaos.preload import NEVER_MS, SYNCS, Slow, build, slowed
from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.support.process import PROGRAM, Process, assigned, tail
from tests.support.requests import codes_of, commit_request, create_request, fetch_request
from tests.support.wire import Address, Client, connect

FAMILY = "stops"
GROUPS = 150
SLOW_MS = 100
SLOW_STOP_S = 5.0
EXIT_S = 2.0
"""What a process may take to notice a signal and to end, above the time of its stop."""
HUNG_S = 3.0
"""How long a compaction may stand still here."""
FOUND_S = 30.0
"""For all groups to be loaded after a start."""
PHASE_S = 30.0
"""For a compaction to begin, to be given up, to be done."""
SMALL_LOGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "30000",
    "log.cleaner.backoff.ms": "200",
}


class _Own(Process):
    """A server of the attack's own, over a folder of its own."""

    def __init__(
        self,
        target: Target,
        settings: Mapping[str, str],
        variables: Mapping[str, str],
        command: Sequence[str],
    ) -> None:
        folder = _folder(target)
        self.log = folder / "own.log"
        super().__init__(
            *("--http", "127.0.0.1:0", "--data-dir", str(folder / "own"), *assigned(settings)),
            program=command,
            log=self.log,
            cwd=folder,  # in a work tree its code comes first, whatever PYTHONPATH is
            environment={**os.environ, "PYTHONPATH": str(target.checkout), **variables},
        )
        self.kafka, self.http, *_ = self.ready()


def _served(
    target: Target,
    settings: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    command: Sequence[str] = PROGRAM,
) -> _Own:
    return _Own(target, settings or {}, variables or {}, command)


def _folder(target: Target) -> Path:
    folder = target.data_dir.parent / "stops"
    folder.mkdir(exist_ok=True)
    return folder.resolve()


def _topic(client: Client) -> None:
    answer = client.call(4, create_request("orders"))
    assert answer.topics[0].error_code == 0


def _commit(client: Client, group: str, offset: int) -> None:
    answer = client.call(7, commit_request({("orders", 0): offset}, group))
    assert set(codes_of(answer).values()) == {0}, "a commit was refused"


def _check_offsets(address: Address, expected: Mapping[str, int]) -> None:
    """Raises Complaint unless all of them are there, once they are loaded."""
    client, deadline = connect(address), time.monotonic() + FOUND_S
    for group, offset in expected.items():
        while True:
            [found] = client.call(8, fetch_request(group)).groups
            if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            check(time.monotonic() < deadline, "not loaded in time after the stop")
        offsets = [each.committed_offset for topic in found.topics for each in topic.partitions]
        check(offsets == [offset], f"{group} has {offsets} after the stop, not {offset}")


def _stopped_on(target: Target, slow: str, ms: int) -> tuple[int | None, float, str]:
    """Commit to all partitions, then stop while syncs below a path take so long: exit code,
    seconds, the end of the log. All that was acknowledged is there after the next start.
    """
    folder = _folder(target)
    flag, library = folder / "slow", build(folder)
    rules = [Slow(SYNCS, f"{folder}/own/{slow}", ms)]
    with _served(target, variables=slowed(rules, library, flag=flag)) as own:
        client = connect(own.kafka)
        _topic(client)
        known = {group: at for at, group in enumerate(names("g", GROUPS))}
        for group, offset in known.items():
            _commit(client, group, offset)
        flag.touch()
        began = time.monotonic()
        code = own.stop()
        seconds = time.monotonic() - began
        said = tail(own.log)
    flag.unlink()
    with _served(target) as again:
        _check_offsets(again.kafka, known)
    return code, seconds, said


def slow_sync(target: Target) -> Steps:
    """All logs are synced and closed at the same time."""
    yield
    code, seconds, _ = _stopped_on(target, "", SLOW_MS)
    check(code == 0, f"exit code {code} after {seconds:.1f} s")
    check(seconds < SLOW_STOP_S, f"stopped after {seconds:.1f} s")
    return f"exit 0 after {seconds:.1f} s"


def hung_sync(target: Target) -> Steps:
    """The stop ends at its deadline, and says what it waited for."""
    yield
    code, seconds, said = _stopped_on(target, "__consumer_offsets", NEVER_MS)
    check(code == 1, f"exit code {code} after {seconds:.1f} s")
    check(seconds < STOP_S + EXIT_S, f"stopped after {seconds:.1f} s")
    for words in ("still stopping", "waited for segments", "Nothing acknowledged is lost"):
        check(words in said, f"no line says: {words}")
    return f"exit 1 after {seconds:.1f} s"


def hung_cleaner(target: Target) -> Steps:
    """A compaction that is stopped is killed and told, and its log is compacted all the same."""
    command = program({"groupkeeper.cleaner.supervision:HUNG_S": HUNG_S})
    with _served(target, SMALL_LOGS, command=command) as own:
        client, numbers = connect(own.kafka), itertools.count()
        _topic(client)
        yield

        def committing(until: Callable[[], bool], complaint: str) -> None:
            deadline = time.monotonic() + PHASE_S
            while not until():
                check(time.monotonic() < deadline, complaint)
                for number in itertools.islice(numbers, 20):
                    _commit(client, f"g{number % 5}", number)

        def lines(event: str) -> list[str]:
            return [line for line in own.log.read_text().splitlines() if f'"{event}"' in line]

        committing(lambda: _stop_cleaner(own.pid), "no compaction began")
        began, compacted = time.monotonic(), len(lines("log compacted"))
        committing(lambda: bool(lines("compaction failed")), "a compaction hangs, and no line")
        took = time.monotonic() - began
        check("made no progress" in lines("compaction failed")[0], "the line has another reason")
        committing(lambda: len(lines("log compacted")) > compacted, "not compacted afterwards")
        with urlopen(f"http://{own.http}/metrics", timeout=10) as answer:
            check(b"groupkeeper_cleaner_hung_total 1.0" in answer.read(), "not counted")
    return f"killed and told after {took:.1f} s, then compacted"


def _stop_cleaner(pid: int) -> bool:
    """SIGSTOP the process that compacts; False if none runs."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            with contextlib.suppress(OSError):
                # Not before it has begun: the server waits for that.
                if b"\0groupkeeper.cleaner\0" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGSTOP)
                    return True
    return False


BESIDE = Limits(stall_ms=500, seconds=3 * PHASE_S)
"""The canary's server is not attacked: another one takes the cores beside it."""

ATTACKS = (
    Attack(
        "slow-sync-at-stop",
        FAMILY,
        "50 partitions with commits, 100 ms a sync: SIGTERM, and start again",
        slow_sync,
        limits=BESIDE,
    ),
    Attack(
        "hung-sync-at-stop",
        FAMILY,
        "syncs of group logs do not come back: SIGTERM, and start again",
        hung_sync,
        limits=BESIDE,
    ),
    Attack(
        "hung-cleaner",
        FAMILY,
        "SIGSTOP of the process that compacts, while commits go on",
        hung_cleaner,
        limits=BESIDE,
    ),
)
