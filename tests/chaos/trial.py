"""One attack against a fresh server: prepared, measured while it is played, and after it.

What is measured ends up in `Figures`; whether that is good is `verdict.py`'s question.
"""

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.loop_times import iterations, longer_than
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.chaos.canary import SOURCE, Seen, bystander, canary
from tests.chaos.children import Child, ChildError
from tests.chaos.server import Needs, Server, ServerError, Usage
from tests.chaos.target import Attack, Complaint, Target
from tests.chaos.wire import Client
from tests.support.process import ROOT

IDLE_SECONDS = 0.5
PREPARE_SECONDS = 120.0
SAMPLE_SECONDS = 0.1
FREE_SECONDS = 12.0
"""For the server to give memory back to the system."""
SETTLE_SECONDS = 5.0
QUIET_CPU = 0.05
"""Cores in use by a server that is done with an attack; the canary alone takes some."""
SOON_SECONDS = 1.0
SEEN_SECONDS = 20.0
PAGE_SECONDS = 1.2
"""The server makes /metrics anew once a second."""
KILL_MIB = 4_096.0
"""A server that grows to this is killed, before the kernel looks for somebody to kill."""
ATTACKER_NICE = 10
"""Attackers share the cores with the server that is measured, and must not starve it."""
ITERATION_S, STALL_S = 0.02, 0.05


@dataclass
class Figures:
    """What an attack did. Memory in MiB; times as their names say."""

    idle_ms: float = 0.0
    """Slowest beat while nothing happened: what the machine itself does."""
    stall_ms: float = 0.0
    """Slowest beat, of which the waiting for a core does not count."""
    waited_ms: float = 0.0
    """How long the server, or the canary, was ready and waited for a core in that beat."""
    beats: int = 0
    cpu_s: float = 0.0
    seconds: float = 0.0
    before_mib: float = 0.0
    peak_mib: float = 0.0
    after_mib: float = 0.0
    threads: int = 0
    descriptors: int = 0
    log_lines: int = 0
    tracebacks: int = 0
    iterations: int | None = None
    """Iterations of the loop over 20 ms; None from a server that does not count them."""
    stalls: int = 0
    """Those of them over 50 ms, but for those that waited for a core meanwhile."""
    errors: list[str] = field(default_factory=list)
    """What went wrong for those who behave."""
    complaint: str = ""
    """What the attack itself found wrong."""
    words: str = ""
    """What became of the attack, for a person."""
    dead: str = ""
    """Why there is no server any more."""
    unready: str = ""
    """What no longer answers after the attack."""
    stop_code: int | None = 0
    stop_s: float = 0.0
    tries: int = 1


def trial(
    attack: Attack,
    folder: Path,
    fuzz_seconds: float,
    say: Callable[[str], None],
    checkout: Path = ROOT,
) -> Figures:
    """Play it once, on the server of a `checkout`. `say` is told what happens now. Raises
    ServerError if no server starts.
    """
    folder.mkdir(parents=True)
    needs = Needs(
        attack.settings,
        attack.descriptors,
        attack.log_unread,
        checkout=checkout,
        slow_disk=attack.slow_disk,
        secure=attack.secure,
    )
    server = Server(folder, needs)
    if attack.disk_mib and not mounted(server.data_dir, attack.disk_mib):
        return Figures(words="not played: no disk can be mounted here, which takes root")
    try:
        say("starting")
        server.start()
        return _Trial(attack, server, say).run(fuzz_seconds, checkout)
    finally:
        server.kill()
        if attack.disk_mib:
            subprocess.run(["umount", server.data_dir], check=True)


def mounted(folder: Path, size_mib: int) -> bool:
    """Make the folder, with a disk of its own of so many MiB, in memory; False if it may not be."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", folder]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def attacker(pipe: Connection, name: str, target: Target) -> None:
    """What runs in the attacker's process."""
    from tests.chaos.catalogue import ATTACKS

    steps = ATTACKS[name].play(target)
    next(steps)
    pipe.send(("prepared", None))
    pipe.recv()
    words, complaint = "", ""
    try:
        next(steps)
    except StopIteration as end:
        words = end.value or ""
    except Complaint as found:
        complaint = str(found)
    pipe.send(("over", (words, complaint)))


class _Watch:
    """Looks at the server ten times a second, and kills one that eats the machine's memory."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.threads = self.descriptors = 0
        self.peak = 0.0
        self.killed = ""
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            try:
                usage = self._server.usage()
            except ServerError:
                return
            self.peak = max(self.peak, usage.rss)
            self.threads = max(self.threads, usage.threads)
            self.descriptors = max(self.descriptors, usage.descriptors)
            if usage.rss > KILL_MIB:
                self.killed = f"killed by the harness at {usage.rss:.0f} MiB"
                self._server.kill()
                return

    def end(self) -> None:
        self._over.set()
        self._thread.join()


class _Trial:
    def __init__(self, attack: Attack, server: Server, say: Callable[[str], None]) -> None:
        self._attack = attack
        self._server = server
        self._say = say
        self._figures = Figures()
        self._children: list[Child] = []

    def run(self, fuzz_seconds: float, checkout: Path) -> Figures:
        server, figures = self._server, self._figures
        host, _, port = server.http.rpartition(":")
        http = (host, int(port))
        where = server.kafka, http, server.pid, server.data_dir
        target = Target(*where, fuzz_seconds, checkout, server.ports)
        watch = _Watch(server)
        try:
            self._play(target)
        except (ServerError, ChildError) as error:
            figures.dead = watch.killed or str(error)
            figures.peak_mib = watch.peak
        finally:
            for child in self._children:
                child.end()
            watch.end()
        figures.threads, figures.descriptors = watch.threads, watch.descriptors
        figures.tracebacks = server.tracebacks()
        if server.is_alive:
            figures.stop_code, figures.stop_s = server.timed_stop()
        elif not figures.dead:
            figures.dead = watch.killed or f"the server ended:\n{server.tail()}"
        return figures

    def _child(self, *work: object, nice: int = 0) -> Child:
        child = Child(*work, nice=nice)  # type: ignore[arg-type]
        self._children.append(child)
        return child

    def _play(self, target: Target) -> None:
        server, figures = self._server, self._figures
        # These come first: nobody who behaves has to get in while an attack is prepared.
        watchers = [self._child(work, server.kafka, server.pid) for work in (canary, bystander)]
        for watcher in watchers:
            watcher.wait("ready", PREPARE_SECONDS)
        self._say("preparing")
        attacking = self._child(attacker, self._attack.name, target, nice=ATTACKER_NICE)
        attacking.wait("prepared", PREPARE_SECONDS)
        self._settle()

        idle = time.monotonic()
        time.sleep(IDLE_SECONDS)
        loop, log = self._slow_iterations(), server.log_lines()
        server.forget_peak()
        before = server.usage()
        figures.before_mib = before.rss
        begin = time.monotonic()
        self._say("playing")
        attacking.tell("go")
        self._hear(attacking)
        figures.seconds = time.monotonic() - begin
        self._say("settling")
        attacking.end()
        after = self._settle()
        end = time.monotonic()
        after = self._wait_for_memory(before, after)
        self._measure(before, after, log)
        time.sleep(PAGE_SECONDS)
        more = self._slow_iterations()
        if loop is not None and more is not None:
            figures.iterations, figures.stalls = more[0] - loop[0], more[1] - loop[1]
        figures.unready = self._unready()
        self._see(watchers, idle, begin, end)

    def _hear(self, attacking: Child) -> None:
        limit = self._attack.limits.seconds
        if not attacking.hears(limit):
            self._figures.complaint = f"not over after {limit:.0f} s"
            return
        try:
            self._figures.words, self._figures.complaint = attacking.wait("over", limit)
        except ChildError as error:
            self._figures.complaint = f"the attack failed: {error}"

    def _settle(self) -> Usage:
        """Wait until the server has nothing to do but for those who behave."""
        last = self._server.usage()
        for _ in range(int(SETTLE_SECONDS / 0.25)):
            time.sleep(0.25)
            now = self._server.usage()
            if (now.cpu_s - last.cpu_s) / 0.25 < QUIET_CPU + 0.10:
                return now
            last = now
        return last

    def _wait_for_memory(self, before: Usage, after: Usage) -> Usage:
        """The server gives memory back when it next looks at its connections."""
        deadline = time.monotonic() + FREE_SECONDS
        most = before.rss + self._attack.limits.kept_mib
        while after.rss > most and time.monotonic() < deadline:
            time.sleep(0.5)
            now = self._server.usage()
            after = replace(after, rss=now.rss)
        return after

    def _measure(self, before: Usage, after: Usage, log: int) -> None:
        figures = self._figures
        figures.cpu_s = after.cpu_s - before.cpu_s
        figures.peak_mib, figures.after_mib = after.peak, after.rss
        figures.log_lines = self._server.log_lines() - log

    def _see(self, watchers: list[Child], idle: float, begin: float, end: float) -> None:
        figures = self._figures
        for watcher in watchers:
            watcher.tell("end")
        try:
            beats, steps = (watcher.wait("seen", SEEN_SECONDS) for watcher in watchers)
        except ChildError:
            figures.errors.append(f"no answer to a beat, or a commit, for {SEEN_SECONDS:.0f} s")
            return
        assert isinstance(beats, Seen) and isinstance(steps, Seen)
        figures.idle_ms, _ = beats.slowest(idle, begin)
        figures.stall_ms, figures.waited_ms = beats.slowest(begin, end)
        figures.stalls = max(0, figures.stalls - beats.starved(begin, end, STALL_S))
        figures.beats = len(beats.begins)
        figures.errors = [f"canary: {each}" for each in beats.errors]
        figures.errors += [f"bystander: {each}" for each in steps.errors]

    def _slow_iterations(self) -> tuple[int, int] | None:
        """How many took longer than 20 and than 50 ms so far."""
        _, text = self._server.page("/metrics", 5.0)
        counts = iterations(text)
        if not {ITERATION_S, STALL_S} <= counts.keys():
            return None
        return longer_than(ITERATION_S, counts), longer_than(STALL_S, counts)

    def _unready(self) -> str:
        """What a new client and a probe are refused now."""
        for path in ("/healthz", "/readyz"):
            status, text = self._server.page(path, SOON_SECONDS)
            if status != 200:
                return f"{path}: {status or text}"
        try:
            client = Client(self._server.kafka, SOURCE, SOON_SECONDS)
            client.call(0, ApiVersionsRequest())
            client.close()
        except OSError as error:
            return f"new client: {type(error).__name__} {error}".rstrip()
        return ""
