"""The import budget of a start: what a server has imported at its ready line, module by module.

Each module costs a start some 0.4 ms and each server some 30 KiB, and packages of others more. So
`start_imports.txt` names what there may be; a module that a first JoinGroup does not need is
imported by what needs it, on a thread, as the event loop reads no file. The exception is the
messages of APIs that are served: the registry of the protocol has them all.
"""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from groupkeeper.protocol.messages.join_group import JoinGroupResponse
from groupkeeper.protocol.registry import APIS
from tests.support.process import Process
from tests.support.requests import join_request
from tests.support.wire import connect

LIST = Path(__file__).with_name("start_imports.txt")
MESSAGES = frozenset(
    cls.__module__ for api in APIS.values() for cls in (api.request_type, api.response_type)
)

# The server, which prints what is imported behind its ready line, and after each SIGUSR1.
PROGRAM = """
import builtins, signal, sys

standard = sys.stdlib_module_names
of_the_environment = {each for each in sys.modules if each.partition(".")[0] not in standard}
show = print

def tell(*_):
    show(*sorted(set(sys.modules) - of_the_environment), flush=True)

def told(*words, **how):
    show(*words, **how)
    tell()

builtins.print = told
signal.signal(signal.SIGUSR1, tell)
from groupkeeper.cli import main
sys.exit(main(sys.argv[1:]))
"""


def budgeted() -> frozenset[str]:
    """What the list names: modules of ours, and the first part of the names of others."""
    lines = LIST.read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#")) | MESSAGES


def names(line: str) -> frozenset[str]:
    """The same of a line of the program, without private modules of the standard library: they
    differ by version of Python, and come with public ones.
    """
    private = {each for each in sys.stdlib_module_names if each.startswith("_")}
    ours = "groupkeeper"
    tops = ((each, each.partition(".")[0]) for each in line.split())
    return frozenset(each if top == ours else top for each, top in tops) - private


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Sequence[frozenset[str]]:
    """At the ready line, and after a first JoinGroup."""
    folder = tmp_path_factory.mktemp("start")
    program = (sys.executable, "-c", PROGRAM)
    where = ("--http", "127.0.0.1:0", "--data-dir", str(folder / "data"))
    with Process(*where, program=program, log=folder / "log") as process:
        kafka = process.ready().kafka
        at_ready = names(process.line())
        with connect(kafka) as client:
            joined = client.call(3, join_request())
        assert isinstance(joined, JoinGroupResponse)
        process.send_signal(signal.SIGUSR1)
        return at_ready, names(process.line())


def test_nothing_beyond_the_budget_is_imported_before_the_ready_line(
    imported: Sequence[frozenset[str]],
) -> None:
    at_ready, _ = imported
    beyond = sorted(at_ready - budgeted())
    assert not beyond, (
        f"imported before the ready line: {', '.join(beyond)}. If a first JoinGroup does not need "
        f"it, import it later; if it does, name it in {LIST.name}"
    )


def test_the_budget_names_nothing_that_is_not_imported(imported: Sequence[frozenset[str]]) -> None:
    at_ready, _ = imported
    ours = {each for each in budgeted() if each not in sys.stdlib_module_names}
    saved = sorted(ours - at_ready)
    assert not saved, f"no longer imported before the ready line; remove: {', '.join(saved)}"


def test_a_first_join_imports_nothing_of_others(imported: Sequence[frozenset[str]]) -> None:
    at_ready, after_join = imported
    assert {each for each in after_join - at_ready if "." not in each} == set()
