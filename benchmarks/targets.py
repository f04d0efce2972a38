"""The servers under test: how each is started, found ready and stopped.

A target has its own folder and port; it runs on the server's core where there are two. What is put
on it is in cases.py.
"""

import contextlib
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.request import urlopen

from benchmarks import kafka, wire
from benchmarks.crowd import Link
from benchmarks.members import Group
from benchmarks.processes import SERVER_CORE, on_core
from groupkeeper.protocol.api_keys import ApiKey

ROOT = Path(__file__).parent.parent
_READY_S = 90.0
_METRICS_S = 60.0
_HTTP = re.compile(r"http=(\S+)")
_STOP_S = 20.0
_POLL_S = 0.002
_PORTS = range(24100, 32000, 10)  # above 32768 a client's connection may sit on one
_ports = itertools.islice(itertools.cycle(_PORTS), os.getpid() % len(_PORTS), None)
"""Not from the same one on in every process: another benchmark may be about to take it."""


class UnavailableError(Exception):
    """A target that cannot be had here; the text says why."""


Settings = Mapping[str, str]
"""Under Kafka's names, which Groupkeeper's are, too."""


def _floor(port: int, _folder: Path, _settings: Settings) -> list[str]:
    return [sys.executable, "-m", "benchmarks.floor", str(port)]


class Target(NamedTuple):
    """A server that can be measured."""

    command: Callable[[int, Path, Settings], list[str]]
    """Port, folder for data, settings -> the words that start it."""
    checkout: Path = ROOT
    """Where it is started."""


def groupkeeper_of(checkout: Path, python: str) -> Target:
    """Groupkeeper as it is in a checkout, run by an interpreter that has what it needs."""

    def command(port: int, folder: Path, settings: Settings) -> list[str]:
        where = f"--listen 127.0.0.1:{port} --http 127.0.0.1:0 --data-dir".split()
        chosen = {"group.initial.rebalance.delay.ms": "0", **settings}
        assigned = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        return [python, "-m", "groupkeeper", "serve", *where, str(folder / "data"), *assigned]

    return Target(command, checkout)


TARGETS = {
    "groupkeeper": groupkeeper_of(ROOT, sys.executable),
    "floor": Target(_floor),
    "kafka": Target(kafka.command),
}


def available(name: str) -> None:
    """Raises UnavailableError with the reason when a target cannot run here."""
    if name == "kafka":
        try:
            kafka.class_path()
        except kafka.NoKafkaError as error:
            raise UnavailableError(str(error)) from error


class Home(NamedTuple):
    """Where a target keeps its files, and the port that it listens on."""

    port: int
    folder: Path


def new_home(name: str, base: Path) -> Home:
    """An empty folder, formatted where the target wants that."""
    home = Home(free_port(), base / name)
    shutil.rmtree(home.folder, ignore_errors=True)
    home.folder.mkdir(parents=True)
    if name == "kafka":
        kafka.format_storage(*home)
    return home


class Server:
    """One run of a target. `ready_ms`: from just before exec to the first JoinGroup answered."""

    def __init__(
        self,
        name: str,
        base: Path,
        after: "Server | Home | None" = None,
        settings: Settings = MappingProxyType({}),
        target: Target | None = None,
    ) -> None:
        """`after`: go on with that port and data; otherwise with nothing. `target`: what is
        started, if it is not the one of that name in `TARGETS`.
        """
        self.name = name
        target = target or TARGETS[name]
        home = after or new_home(name, base)
        self.port: int = home.port
        self.folder = home.folder
        command = target.command(self.port, self.folder, settings)
        self._output = self.folder / "output.txt"
        with self._output.open("ab") as output, on_core(SERVER_CORE):
            self._said_before = output.tell()
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                command, cwd=target.checkout, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.pid = self._process.pid

    def output(self) -> str:
        """What it has written so far."""
        with self._output.open("rb") as output:
            output.seek(self._said_before)
            return output.read().decode(errors="replace")

    def metrics(self) -> str:
        """What /metrics says. Raises OSError before the server is ready."""
        found = _HTTP.search(self.output())
        if not found:
            raise OSError("not ready")
        with urlopen(f"http://{found[1]}/metrics", timeout=_METRICS_S) as answer:  # our own address
            text: bytes = answer.read()
        return text.decode()

    def wait(self, attempt: Callable[["Server"], None]) -> float:
        """Tries until it succeeds; milliseconds since the process was started."""
        while True:
            try:
                attempt(self)
                return (time.monotonic() - self.started) * 1000
            except (OSError, wire.WrongAnswerError) as error:
                if self._process.poll() is not None or time.monotonic() > self.started + _READY_S:
                    last = self.output()[-800:]
                    self.stop()
                    raise UnavailableError(
                        f"{self.name} did not get ready ({error}): {last}"
                    ) from error
                time.sleep(_POLL_S)

    def stop(self, kill: bool = False) -> None:
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)


def first_join(server: Server) -> None:
    """One static member finds its coordinator, joins and leaves.

    Raises OSError or WrongAnswerError until that works.
    """
    with contextlib.closing(Link(server.port)) as link:
        wire.offered(link.call(wire.api_versions()))
        group = Group.of([link], static=True)
        while wire.found(link.call(wire.find_coordinator(group.name))) in wire.NOT_YET:
            time.sleep(_POLL_S)
        member = group.members[0]
        answer = wire.joined(link.call(wire.join_group(group.name, b"", member.instance)))
        if answer.error:
            raise wire.WrongAnswerError(f"JoinGroup: error {answer.error}")
        member.id = answer.member
        group.leave(link)


def create_topic(server: Server) -> None:
    """The topic that commits are about, where the target has topics."""
    with contextlib.closing(Link(server.port)) as link:
        if ApiKey.CREATE_TOPICS not in wire.offered(link.call(wire.api_versions())):
            return
        request = wire.create_topic(wire.TOPIC, wire.TOPIC_PARTITIONS)
        error = wire.created(link.call(request))
        if error not in {0, wire.TOPIC_ALREADY_EXISTS}:
            raise wire.WrongAnswerError(f"CreateTopics: error {error}")
    time.sleep(1.0)  # a broker learns of a new topic a little later


@contextlib.contextmanager
def running(name: str, base: Path, target: Target | None = None) -> Iterator[Server]:
    """A fresh server, ready for a first member. `target` as of `Server`."""
    server = Server(name, base, target=target)
    try:
        server.wait(first_join)
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """A port below the range that the kernel hands out, free together with its neighbour (Kafka's
    controller).
    """
    for port in itertools.islice(_ports, len(_PORTS)):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for candidate in (port, port + 1):
                probe = stack.enter_context(contextlib.closing(socket.socket()))
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", candidate))
            return port
    raise UnavailableError("no free port between 24100 and 32000")


def file_system(folder: Path) -> str:
    """The type of the file system that a folder is on, as /proc/mounts names it."""
    best, kind = "", "unknown"
    real = os.path.realpath(folder)
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, mount, type_, *_ = line.split()
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, type_
    return kind
