"""Workers on Java's consumer, in the version of the newest Kafka. Needs Java and Maven."""

import shutil
import subprocess
import threading
from pathlib import Path

from tests.clients.libraries import Library
from tests.clients.process import Worker
from tests.suites import maven, versions

SOURCE = Path(__file__).parent / "OnJava.java"
_FOLDER = Path(__file__).parents[2] / ".suites" / "truth"
_CLIENT = f"org.apache.kafka:kafka-clients:{versions.KAFKA}"
_SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

JAVA = Library(
    name=f"java-{versions.KAFKA}",
    script=SOURCE.name,
    can=frozenset({"static members", "fencing"}),
    unusable=None if shutil.which("java") and shutil.which("mvn") else "needs java and mvn",
)


class JavaWorker(Worker):
    """A worker whose script is Java's, compiled when it starts."""

    def start(self, log: Path) -> None:
        """Start the process; what its client logs goes to a file."""
        self.log = log
        _FOLDER.mkdir(parents=True, exist_ok=True)
        jars = maven.jars(_FOLDER, [_CLIENT])
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                ["java", *_SMALL_JVM, "-cp", jars, str(SOURCE), self._bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()
