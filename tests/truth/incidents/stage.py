"""What an incident is played on: a server whose disk, process and time can be stopped, and a group
of real clients.
"""

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.preload import NEVER_MS, SYNCS, Slow, build, slowed
from tests.clients.libraries import Library
from tests.clients.process import Worker, wait_until
from tests.clients.scene import Group
from tests.support.process import Process, Server, assigned
from tests.support.requests import commit_request, produce_request
from tests.support.wire import Client, connect
from tests.truth.cable import Cable
from tests.truth.incidents.layers import Layers
from tests.truth.play import KAFKA_PYTHON, PARTITIONS, SETTINGS, AllWorkers

SESSION_MS: Final = 3_000
LONG_MS: Final = 60_000
POLL_MS: Final = 4_000
_LIBRARIES: Final = Path(__file__).parents[3] / ".suites"
_building = threading.Lock()


class StageServer(Server):
    """A server whose disk hangs while the file `flag` exists; `bench` lets its time be moved."""

    control: str | None = None

    def __init__(self, folder: Path, settings: Mapping[str, str], *, bench: bool, **more: Any):
        super().__init__(folder, settings, **more)
        self.flag = folder / "disk-hangs"
        self._bench = ("--dev", "--control", "127.0.0.1:0") if bench else ()
        _LIBRARIES.mkdir(exist_ok=True)
        with _building:
            library = build(_LIBRARIES)
        self._rules = (Slow(SYNCS, self.data_dir.resolve(), NEVER_MS),)
        self._slow = slowed(self._rules, library, flag=self.flag)

    def launch(self) -> None:
        self.process = Process(
            *("--listen", self.bootstrap, "--http", self.http, *self._bench),
            *("--data-dir", str(self.data_dir), *assigned(self.settings), *self._more),
            log=self.log,
            cwd=self.checkout,
            environment={**os.environ, "PYTHONPATH": str(self.checkout), **self._slow},
        )

    def start(self) -> None:
        super().start()
        assert self.process is not None
        self.control = self.process.control

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self.process is not None
        self.process.send_signal(number)


class Stage:
    """An incident under way. `session_ms` is that of members who are given none."""

    def __init__(
        self,
        client: Library,
        folder: Path,
        *,
        bench: bool = False,
        cable: bool = False,
        session_ms: int = SESSION_MS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cable = Cable() if cable else None
        self.folder, self.session_ms = folder, session_ms
        advertise = self.cable.address if self.cable else None
        chosen = {**SETTINGS, **(settings or {})}
        self.server = StageServer(folder, chosen, bench=bench, advertise=advertise)
        self.server.start()
        if self.cable is not None:
            self.cable.to(self.server.kafka)
        self.workers = AllWorkers(self.server, folder)
        self.admin = self.workers.start(KAFKA_PYTHON)
        self.group = Group(client, self.workers, self.admin)
        self.layers = Layers(self.server, PARTITIONS)
        self.members: list[Worker] = []
        self._commits = 0
        self.programs: list[Any] = []
        """Processes beside the workers, each with `kill`."""

    def close(self) -> None:
        """End all processes."""
        for each in self.programs:
            each.kill()
        self.workers.end()
        if self.cable is not None:
            self.cable.close()
        self.server.flag.unlink(missing_ok=True)
        self.server.signal(signal.SIGCONT)
        self.server.stop()

    # -- members -----------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *,
        static: bool = False,
        session_ms: int | None = None,
        poll_ms: int = LONG_MS,
        library: Library | None = None,
        **more: Any,
    ) -> Worker:
        """A member whose client id is its name; a static one has the instance id, too."""
        session = session_ms or self.session_ms
        names = {"client.id": name, "max.poll.interval.ms": max(poll_ms, session)}
        settings = names | {key.replace("__", "."): value for key, value in more.items()}
        instance = name if static else None
        member = self.group.join(instance, session_ms=session, library=library, more=settings)
        self.members.append(member)
        return member

    def settled(self, *names: str, **how: Any) -> list[Worker]:
        """Members that share the topic, joined one after the other, which is then the beginning:
        what happened so far does not count.
        """
        members = self.more([], *names, **how)
        self.consumed(*members)
        self.now()
        return members

    def more(self, members: list[Worker], *names: str, **how: Any) -> list[Worker]:
        """Those and new members, once they share the topic."""
        members = [*members]
        for name in names:
            members.append(self.join(name, **how))
            self.group.settle(*members)
        return members

    def consumed(self, *members: Worker) -> None:
        """Let the members consume something, and commit it."""
        self.group.await_records(self.group.send(1), *members)
        self.group.commit(*members)

    def settle(self, *members: Worker, seconds: float = 40.0) -> None:
        """Wait until these members share the topic; unlike `Group.settle` for a time that is given,
        and also if they gave nothing back.
        """
        wait_until(lambda: self.group._shared_by(members), list(members), seconds)

    def client(self) -> Client:
        """A connection for requests by hand."""
        return connect(self.server.kafka)

    # -- the server --------------------------------------------------------------------------------

    def disk_hangs(self, seconds: float, *members: Worker) -> None:
        """Let each sync of the server hang for a time, in which these members commit."""
        if members:  # some clients commit only what is new
            self.group.await_records(self.group.send(1), *members)
        self.server.flag.touch()
        for each in members:
            each.tell("commit")
        time.sleep(seconds)
        self.server.flag.unlink()

    def stands_still(self, seconds: float) -> None:
        """Stop the process of the server for a time."""
        self.server.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.server.signal(signal.SIGCONT)

    def away(self, seconds: float, *, orderly: bool = False) -> None:
        """End the server's process and start it again after a time."""
        if orderly:
            self.server.stop()
        else:
            self.server.kill()
        time.sleep(seconds)
        self.server.start()
        self.group.change_observer()
        self.admin = self.group.observer

    def advance(self, seconds: float, *silent: str) -> None:
        """Move the time of the test bench."""
        self.control("time/advance", seconds=seconds, silent=list(silent))

    def goes_on(self, seconds: float, records: int = 3) -> None:
        """Move the time of the test bench. Then records arrive in each partition, and another group
        commits, both with the time of the bench: what is not written has no time in a log.
        """
        now = self.control("time/advance", seconds=seconds)
        client, group = self.client(), self.group
        values = [b"x"] * records
        for _, number in sorted(group.partitions):
            request = produce_request(group.topic, number, *values, time=now["time_ms"])
            client.call(7, request)
        self._commits += 1
        client.call(7, commit_request({(group.topic, 0): self._commits}, f"other-{group.name}"))
        client.close()

    def control(self, path: str, **body: Any) -> dict[str, Any]:
        """A request to the control port of the test bench, and its answer."""
        address = f"http://{self.server.control}/control/v1/{path}"
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(address, data, headers, method="POST")
        with urllib.request.urlopen(request, timeout=120) as answer:
            read: dict[str, Any] = json.loads(answer.read() or "{}")
        return read

    # -- what is told ------------------------------------------------------------------------------

    def now(self) -> None:
        """What happened so far does not count."""
        self.layers.begin(self.group.name)

    def watch(self, name: str) -> None:
        """Judge another group than that of `group`."""
        self.layers.begin(name)
