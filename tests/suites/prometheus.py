"""A real Prometheus with our configuration, on a server under load: every expression of our board
and of those that people have returns data, and the alerts do what their tests say.
"""

import contextlib
import json
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, Producer

from tests.suites import versions
from tests.suites.process import Background, Lines, call
from tests.suites.suite import Outcome, Result, Results, Suite, SuiteError, Target
from tests.support.boards import DOCKER, Panel, panels
from tests.support.populated import PARCELS, populated
from tests.support.process import ROOT

_READY_S = 30.0
_SCRAPED_S = 40.0
"""Of load before the questions: several scrapes."""
_PROMTOOL_S = 60.0
_STAYS_S = 8.0
"""A member of the group that consumes."""
_CHECKS = {
    "promtool check config": ("check", "config", DOCKER / "prometheus.yaml"),
    "promtool test rules": ("test", "rules", DOCKER / "alerts-test.yaml"),
}


_NOT_OBSERVED = {
    "Longest silence of a static member": "heartbeats leave no record",
    "Requests per second, by API": "an observer serves no clients",
    "Answers with an error per second": "an observer serves no clients",
    "Request latency p99, by API *": "an observer serves no clients",
}


class Prometheus(Suite):
    """The programs come from the PATH, or from Debian's package, which is unpacked and not
    installed.
    """

    name = "prometheus"
    about = "a real Prometheus scrapes a server under load: boards, ours and others', have data"
    versions: ClassVar = {"prometheus": versions.PROMETHEUS}
    limit_s = 240.0

    def __init__(self) -> None:
        self._rows: list[tuple[Panel, int]] = []

    def prepare(self, folder: Path) -> None:
        if shutil.which("prometheus") and shutil.which("promtool"):
            return
        if not (folder / "package").exists():
            if not shutil.which("apt-get"):
                raise SuiteError("needs prometheus and promtool, not found on the PATH")
            call(["apt-get", "download", "prometheus"], folder)
            [archive] = folder.glob("prometheus_*.deb")
            call(["dpkg-deb", "-x", archive, "package"], folder)

    def run(self, target: Target, folder: Path) -> Results:
        if target.http is None:
            raise SuiteError("needs a server of ours: it has the metrics")
        self._rows.clear()
        for name, arguments in _CHECKS.items():
            yield _checked(name, [_program("promtool", folder), *arguments], folder)
        with (
            _loaded(target.bootstrap),
            self._served(target, folder) as http,
            _prometheus(http, folder) as address,
        ):
            time.sleep(_SCRAPED_S)
            for panel in panels():
                if panel.has_data:
                    yield self._result(panel, address, http)

    @contextlib.contextmanager
    def _served(self, target: Target, folder: Path) -> Iterator[str]:
        """The address that is scraped."""
        assert target.http is not None
        yield target.http

    def _result(self, panel: Panel, address: str, instance: str) -> Result:
        began = time.monotonic()
        query = panel.filled(
            {"topic": ".+", "consumergroup": ".+", "group": ".+", "instance": instance}
        )
        found = _ask(address, query)
        count = len(found) if isinstance(found, list) else 0
        self._rows.append((panel, count))
        outcome = Outcome.PASSED if count else Outcome.FAILED
        detail = "" if count else f"{query}\nno data" if isinstance(found, list) else found
        name = f"{panel.board}: {panel.title}: {panel.expression}"
        return Result(name, outcome, time.monotonic() - began, detail)

    def summary(self) -> Sequence[str]:
        lines = [f"{count:6} series  {panel.board:8} {panel.title}" for panel, count in self._rows]
        return ["expressions and what they return:", *lines] if lines else []


class ObservedPrometheus(Prometheus):
    """The same of an observer beside the server, which does not know that there is one."""

    name = "prometheus-observer"
    about = "a real Prometheus scrapes an observer beside a server under load: boards have data"
    limit_s = 300.0
    known: ClassVar = {f"ours: {title}: *": why for title, why in _NOT_OBSERVED.items()}

    @contextlib.contextmanager
    def _served(self, target: Target, folder: Path) -> Iterator[str]:
        place = folder / "observer"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        where = ["--bootstrap-server", target.bootstrap, "--http", "127.0.0.1:0", "--data", "data"]
        command = [sys.executable, "-m", "groupkeeper", "observe", *where]
        env = {"PYTHONPATH": str(ROOT)}
        with Background(Lines(command, place, limit_s=self.limit_s, env=env)) as running:
            yield running.wait_for(r"observer ready http=(\S+)", _READY_S)


def _program(name: str, folder: Path) -> str:
    return shutil.which(name) or str(folder / "package" / "usr" / "bin" / name)


def _checked(name: str, command: Sequence[str | Path], folder: Path) -> Result:
    with Lines(command, folder, limit_s=_PROMTOOL_S) as lines:
        printed = list(lines)
    outcome = Outcome.FAILED if lines.returncode else Outcome.PASSED
    return Result(name, outcome, detail="\n".join(printed))


@contextlib.contextmanager
def _prometheus(http: str, folder: Path) -> Iterator[str]:
    """Prometheus with the files in docker/, but for its target; yields its address."""
    place = folder / "prometheus"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name in ("prometheus.yaml", "alerts.yaml"):
        shutil.copy(DOCKER / name, place)
    (place / "targets.yaml").write_text(json.dumps([{"targets": [http]}]), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        _program("prometheus", folder),
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={address}",
    ]
    with Background(Lines(command, place, limit_s=Prometheus.limit_s)) as running:
        running.wait_for("Server is ready to receive web requests", _READY_S)
        yield address


def _ask(address: str, query: str) -> list[Any] | str:
    """The series of an instant query, or why there is no answer."""
    form = urllib.parse.urlencode({"query": query}).encode()
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/query", form, timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        return f"{query}\n{error.read().decode()}"
    except OSError as error:
        return f"{query}\n{error}"


@contextlib.contextmanager
def _loaded(bootstrap: str) -> Iterator[None]:
    """Groups of every kind, and records that are produced, consumed and committed."""
    stopped = threading.Event()
    with populated(bootstrap, int(time.time() * 1000)):
        work = [
            threading.Thread(target=_produce, args=(bootstrap, stopped)),
            threading.Thread(target=_consume, args=(bootstrap, stopped)),
        ]
        for each in work:
            each.start()
        try:
            yield
        finally:
            stopped.set()
            for each in work:
                each.join()


def _produce(bootstrap: str, stopped: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    number = 0
    while not stopped.wait(0.05):
        number += 1
        producer.produce(PARCELS, b"%d" % number, partition=number % 4)
        producer.poll(0)
    producer.flush(5)


def _consume(bootstrap: str, stopped: threading.Event) -> None:
    """A member that comes and goes."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "consuming",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
    }
    while not stopped.is_set():
        consumer = Consumer(settings)
        consumer.subscribe([PARCELS])
        until = time.monotonic() + _STAYS_S
        while not stopped.is_set() and time.monotonic() < until:
            consumer.poll(0.2)
        consumer.close()
