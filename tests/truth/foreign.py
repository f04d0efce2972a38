"""Workers on clients that are not Python's: Java's consumer, and franz-go. Everything they need is
fetched and compiled once, into `.suites/`.
"""

import hashlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.clients import environments
from tests.clients.libraries import Library
from tests.clients.process import Worker
from tests.suites import maven, versions
from tests.suites.process import call

HERE = Path(__file__).parent
_CACHE = HERE.parents[1] / ".suites"
_SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_KGO = "github.com/twmb/franz-go/pkg/kgo"
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
BY_HAND = Library(name="requests by hand", script="")
"""No library: the situation speaks itself."""


def _java() -> list[str]:
    folder = _CACHE / "truth-java"
    jars = maven.jars(folder, [f"org.apache.kafka:kafka-clients:{versions.KAFKA}"])
    source = HERE / JAVA.script
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    classes = folder / f"classes-{digest}"
    if not classes.exists():  # java compiles a source file at each start, for two seconds
        call(["javac", "-cp", jars, "-d", classes, source], folder)
    return ["java", *_SMALL_JVM, "-cp", f"{jars}:{classes}", source.stem]


def _franz_go() -> list[str]:
    source = HERE / FRANZ_GO.script
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = _CACHE / "truth-go"
    program = folder / f"worker-{versions.FRANZ_GO}-{digest}"
    if not program.exists():
        folder.mkdir(exist_ok=True)
        shutil.copy(source, folder)
        if not (folder / "go.mod").exists():
            call(["go", "mod", "init", "truth"], folder)
        call(["go", "get", f"{_KGO}@{versions.FRANZ_GO}"], folder)
        call(["go", "build", "-o", program, "worker.go"], folder)
    return [str(program)]


COMMANDS: dict[str, Callable[[], list[str]]] = {JAVA.name: _java, FRANZ_GO.name: _franz_go}


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
