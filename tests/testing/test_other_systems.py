"""The test bench on systems that are not Linux, as far as that can be seen on Linux.

`elsewhere.py` takes away what Windows lacks. The second half is about macOS.
"""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from groupkeeper.server.descriptors import raise_limit
from tests.support.process import ROOT, Process

ELSEWHERE = Path(__file__).with_name("elsewhere.py")
WINDOWS = (sys.executable, str(ELSEWHERE))
KILL = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
    process.kill()
assert process.returncode
"""
COMMAND = "import sys; from groupkeeper.cli import main; sys.exit(main())"
NO_LOCKS = (
    "data directories need the file locks (flock) of Linux or macOS, and this system has none: "
    "use --memory, in tests a Broker without data="
)

IN_MEMORY = """
from groupkeeper.testing import Broker
with Broker(topics={"orders": 1}) as broker:
    broker.produce("orders", "first")
    broker.commit("billing", {("orders", 0): 1})
    broker.crash()
    broker.restart()
    assert [record.value for record in broker.records("orders")] == [b"first"]
    assert broker.committed("billing") == {("orders", 0): 1}
    broker.reset()
    assert broker.committed("billing") == {}
"""
NO_FILES = """
import resource
from groupkeeper.testing import Broker
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    Broker().start()
except OSError as error:
    print(error)
"""
ON_DISK = """
import pathlib, sys
from groupkeeper.testing import Broker
try:
    Broker(data=sys.argv[1]).start()
except Exception as error:
    print(error)
print(pathlib.Path(sys.argv[1]).exists())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


LIBRARIES = "numpy pyarrow pyarrow.parquet numba rich.console rich.progress"
"""Of an analysis, which find out where they run when they are imported."""
LOG = ROOT / "tests" / "fixtures" / "kafka-consumer-offsets"


def run(*command: str | Path, before: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "BEFORE": before},
        timeout=500,  # numba compiles, which takes minutes beside other tests
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_broker_in_memory_needs_nothing_that_windows_lacks(program: Path) -> None:
    program.write_text(IN_MEMORY)
    assert run(*WINDOWS, program) == (0, "", "")


def test_a_data_directory_without_locks_is_refused_in_a_line(program: Path, tmp_path: Path) -> None:
    program.write_text(ON_DISK)
    assert run(*WINDOWS, program, tmp_path / "data") == (0, f"{NO_LOCKS}\nFalse\n", "")


@pytest.mark.parametrize("arguments", [("serve", "--data-dir"), ("dump",), ("repair",)])
def test_commands_on_files_say_so_too(
    program: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    program.write_text(COMMAND)
    ended, output, errors = run(*WINDOWS, program, *arguments, tmp_path)
    assert (ended, output, errors.splitlines()[-1]) == (1, "", f"groupkeeper: {NO_LOCKS}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("control", [(), ("--control", "127.0.0.1:0")], ids=["plain", "controlled"])
def test_a_server_in_memory_stops_in_order(
    program: Path, control: tuple[str, ...], number: signal.Signals
) -> None:
    program.write_text(COMMAND)
    options = ("--dev", "--memory", "--http", "127.0.0.1:0", *control)
    with Process(*options, program=[*WINDOWS, str(program)]) as process:
        process.ready()
        process.popen.send_signal(number)
        assert process.wait() == 0, process.tail()


def test_a_process_is_killed_there_too(program: Path) -> None:
    """As the demonstration does with its consumers, if it has some when it is ended."""
    program.write_text(KILL)
    assert run(*WINDOWS, program) == (0, "", "")


def test_the_demonstration_begins_and_ends_in_order(program: Path) -> None:
    program.write_text(COMMAND)
    with subprocess.Popen(
        [*WINDOWS, str(program), "demo"],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert begun.startswith("A server is running, with its data in memory: kafka="), errors
    assert (process.returncode, errors) == (130, "")


def test_a_log_is_analysed(program: Path, tmp_path: Path) -> None:
    program.write_text(COMMAND)
    report, out = tmp_path / "report.html", tmp_path / "out"
    words = ("analyze", LOG, "--group", "billing")
    code, told, _ = run(*WINDOWS, program, *words, "--report", report, before=LIBRARIES)
    assert (code, told.splitlines()[0], report.is_file()) == (0, "Groups: 1", True)
    code, told, errors = run(*WINDOWS, program, *words, "--out", out, before=LIBRARIES)
    assert (code, told, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("groupkeeper: --out needs the file locks (flock) of Linux or macOS")


def test_a_hard_limit_of_open_files_that_is_refused_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
    monkeypatch.undo()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_broker_that_can_open_no_file_says_so(program: Path) -> None:
    program.write_text(NO_FILES)
    code, output, _ = run(sys.executable, program)  # asyncio complains on standard error, too
    assert (code, output) == (0, "[Errno 24] Too many open files\n")
