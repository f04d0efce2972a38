"""Workers on clients that are not Python's: Java's consumer, franz-go, sarama and kafkajs.
Everything they need is fetched and compiled once, into `.suites/`.
"""

import hashlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tests.clients import environments
from tests.clients.libraries import Library
from tests.clients.process import Worker
from tests.suites import maven, versions
from tests.suites.kafkajs import KafkaJs
from tests.suites.process import call

HERE = Path(__file__).parent
_CACHE = HERE.parents[1] / ".suites"
_SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FRANZ_GO = tuple(
    f"github.com/twmb/franz-go/pkg/{each}@{versions.FRANZ_GO}"
    for each in ("kgo", "sasl/oauth", "sasl/scram")
)
_SARAMA = (
    f"github.com/IBM/sarama@{versions.SARAMA}",
    f"github.com/xdg-go/scram@{versions.XDG_SCRAM}",
)
_ENTRANCE = "go/entrance.go"
_OLDER_KAFKA = "2.8.2"
_ARCHIVE_S = 4.0
_making = threading.Lock()


def _needs(*tools: str) -> str | None:
    """Why a client cannot be used."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)} on the path" if missing else None


JAVA = Library(
    name=f"java-{versions.KAFKA}",
    script="java/OnJava.java",
    can=frozenset({"static members", "fencing"}),
    unusable=_needs("java", "javac", "mvn"),
)
FRANZ_GO = Library(
    name=f"franz-go-{versions.FRANZ_GO}",
    script="go/worker.go",
    can=frozenset({"static members", "fencing"}),
    unusable=_needs("go"),
)
OLDER_JAVA = Library(
    name=f"java-{_OLDER_KAFKA}", script=JAVA.script, can=JAVA.can, unusable=JAVA.unusable
)
SARAMA = Library(name=f"sarama-{versions.SARAMA}", script="go/sarama.go", unusable=_needs("go"))
KAFKAJS = Library(
    name=f"kafkajs-{versions.KAFKAJS}", script="js/worker.mjs", unusable=_needs("node", "npm")
)
BY_HAND = Library(name="requests by hand", script="")
"""No library: the situation speaks itself."""


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()[:12]


def _java(folder: str, version: str) -> list[str]:
    place = _CACHE / folder
    jars = maven.jars(place, [f"org.apache.kafka:kafka-clients:{version}"])
    source = HERE / JAVA.script
    made = place / f"program-{_digest(source)}"
    program, archive = made / "program.jar", made / "classes.jsa"
    if not program.exists():  # java compiles a source file at each start, for two seconds
        call(["javac", "-cp", jars, "-d", made / "classes", source], place)
        call(["jar", "cf", program, "-C", made / "classes", "."], place)
    command = ["java", *_SMALL_JVM, "-cp", f"{jars}:{program}"]
    if not archive.exists():
        _archive([*command, f"-XX:ArchiveClassesAtExit={archive}", source.stem, "127.0.0.1:1"])
    return [*command, f"-XX:SharedArchiveFile={archive}", source.stem]


def _archive(command: list[str]) -> None:
    """Keep the classes of a consumer that finds no broker: each start takes half the processor
    time with them, and goes without if there are none.
    """
    settings = {"topics": ["t"], "group": "g", "instance_id": None, "auto_commit": True, "more": {}}
    start = {"id": 1, "do": "start", "session_ms": 10_000, "heartbeat_ms": 3_000, **settings}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(start) + "\n")
        process.stdin.flush()
        time.sleep(_ARCHIVE_S)


def _go(folder: str, script: str, version: str, *modules: str) -> list[str]:
    sources = HERE / script, HERE / _ENTRANCE
    place = _CACHE / folder
    program = place / "-".join([sources[0].stem, version, *map(_digest, sources)])
    if not program.exists():
        place.mkdir(exist_ok=True)
        for each in sources:
            shutil.copy(each, place)
        if not (place / "go.mod").exists():
            call(["go", "mod", "init", "truth"], place)
        for each in modules:
            call(["go", "get", each], place)
        call(["go", "build", "-mod=mod", "-o", program, *(each.name for each in sources)], place)
    return [str(program)]


def _kafkajs() -> list[str]:
    """Node finds packages beside a program, or above it: so the program is copied there."""
    folder = _CACHE / KafkaJs.name
    folder.mkdir(exist_ok=True)
    KafkaJs().prepare(folder)
    source = HERE / KAFKAJS.script
    shutil.copy(source, folder)
    return ["node", str(folder / source.name)]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    JAVA.name: partial(_java, "truth-java", versions.KAFKA),
    OLDER_JAVA.name: partial(_java, "truth-java-older", _OLDER_KAFKA),
    FRANZ_GO.name: partial(_go, "truth-go", FRANZ_GO.script, versions.FRANZ_GO, *_FRANZ_GO),
    SARAMA.name: partial(_go, "truth-sarama", SARAMA.script, versions.SARAMA, *_SARAMA),
    KAFKAJS.name: _kafkajs,
}


def make(libraries: Iterable[Library]) -> None:
    """Fetch and compile what these need, before a play is timed: compilers take all cores."""
    _CACHE.mkdir(exist_ok=True)
    for library in libraries:
        if library.name in COMMANDS:
            with _making:
                COMMANDS[library.name]()
        elif (environments.HERE / "requirements" / f"{library.name}.txt").exists():
            environments.folder(library.name)


class ForeignWorker(Worker):
    """A worker whose program is not Python's."""

    def start(self, log: Path) -> None:
        """Start the process; what its client logs goes to a file. Raises SuiteError."""
        self.log = log
        _CACHE.mkdir(exist_ok=True)
        with _making:
            command = COMMANDS[self.library.name]()
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*command, self._bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()
