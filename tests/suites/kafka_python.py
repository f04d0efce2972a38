"""kafka-python's integration tests of consumers and administration, from its source distribution.

Two things are not in it, and are supplied: the marker that makes `test` a package, and the module
that starts brokers (`supplied/service.py`).
"""

import shutil
import sys
import tarfile
from pathlib import Path
from typing import ClassVar

from tests.suites import events, versions
from tests.suites.process import Lines, call
from tests.suites.suite import Results, Suite, Target

_SUPPLIED = Path(__file__).parent / "supplied"
_FILES = ("test_consumer_integration.py", "test_admin_integration.py")
_TEST_SECONDS = 60
# Keeps pytest from looking for settings further up, where it would find our own.
_PYTEST_INI = "[pytest]\n"
_ONE_NODE = "there is one node: leaders and replicas do not move"


class KafkaPython(Suite):
    """Without the producer's tests, and those of TLS and SASL."""

    name = "kafka-python"
    about = "kafka-python: integration tests of its consumer and of its administration client"
    versions: ClassVar = {"kafka-python": versions.KAFKA_PYTHON}
    limit_s = 400.0
    known: ClassVar = {
        "test_create_describe_delete_acls": "there are no access rules to administer",
        "test_describe_configs_broker_resource_*": (
            "a server's configs are its settings: addresses are options of the command line"
        ),
        "test_elect_leaders": _ONE_NODE,
        "test_*_partition_reassignments": _ONE_NODE,
        "test_alter_*log_dirs": "logs are not moved to other folders",
    }

    def prepare(self, folder: Path) -> None:
        done = folder / "done"
        wanted = "\n".join(versions.KAFKA_PYTHON_PACKAGES)
        if done.exists() and done.read_text() == wanted:
            return
        for old in ("venv", "test"):
            shutil.rmtree(folder / old, ignore_errors=True)
        call([sys.executable, "-m", "venv", "venv"], folder)
        pip = ["venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        call([*pip, "install", "--no-deps", *versions.KAFKA_PYTHON_PACKAGES], folder)
        source = f"kafka-python=={versions.KAFKA_PYTHON}"
        call([*pip, "download", "--no-deps", "--no-binary", "kafka-python", source], folder)
        self._unpack(folder)
        done.write_text(wanted)

    def _unpack(self, folder: Path) -> None:
        name = f"kafka_python-{versions.KAFKA_PYTHON}"
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            tests = [each for each in archive if each.name.startswith(f"{name}/test/")]
            archive.extractall(folder, tests, filter="data")
        (folder / name / "test").rename(folder / "test")
        (folder / "test" / "__init__.py").touch()
        shutil.copy(_SUPPLIED / "service.py", folder / "test" / "service.py")
        (folder / "pytest.ini").write_text(_PYTEST_INI)

    def run(self, target: Target, folder: Path) -> Results:
        env = {
            "KAFKA_URI": f"kafka://{target.bootstrap}",
            "KAFKA_VERSION": versions.KAFKA,
            "KAFKA_ROOT": str(folder),
            "PYTHONPATH": str(_SUPPLIED),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = ["venv/bin/python", "-m", "pytest", "-p", "telling", "-p", "no:cacheprovider"]
        command += ["--tb=short", f"--timeout={_TEST_SECONDS}"]
        command += [f"test/integration/{file}" for file in _FILES]
        with Lines(command, folder, limit_s=self.limit_s, env=env) as lines:
            yield from events.outcomes(lines, "(all)")
