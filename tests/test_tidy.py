"""The house limits that no linter knows, over every file of the product packages.

Not a test of behaviour: `make check` runs this module by itself.
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from groupkeeper.protocol.messages import MEANINGS

ROOT = Path(__file__).parent.parent
PACKAGES = ("protocol", "coordinator", "storage", "groupkeeper")
MODULE_LINES = 400
FUNCTION_LINES = 50


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of every function, docstring included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_stay_under_400_lines(package: str) -> None:
    long = {str(path.relative_to(ROOT)): lines_of(path) for path in modules(package)}
    assert {name: lines for name, lines in long.items() if lines > MODULE_LINES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_stay_under_50_lines(package: str) -> None:
    long = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in modules(package)
        for name, lines in functions(path)
        if lines > FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is(package: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules(package)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def message_classes(path: Path) -> Iterator[ast.ClassDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            makers = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if makers & {"message", "response_to", "struct"}:
                yield node


def test_every_field_of_a_message_says_what_it_means() -> None:
    """A docstring of one line below the field, or in `MEANINGS`; docs/protocol.md shows it."""
    silent = [
        f"{path.relative_to(ROOT)}: {cls.name}.{ast.unparse(field.target)}"
        for path in modules("protocol")
        for cls in message_classes(path)
        for field, below in pairwise([*cls.body, ast.Pass()])
        if isinstance(field, ast.AnnAssign) and not is_line_of_text(below)
        if ast.unparse(field.target) not in MEANINGS
    ]
    assert silent == []


def is_line_of_text(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(ast.Constant(str(text))):
            return "\n" not in text
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_names_stand_in_single_backticks(package: str) -> None:
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in modules(package)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"``\w|:(class|meth|func|data|attr|mod):`", line)
    ]
    assert marked == []


@pytest.mark.parametrize("package", ["protocol", "coordinator"])
def test_pure_packages_open_no_files_and_print_nothing(package: str) -> None:
    """The built-ins that no import contract can see."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules(package)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("open", "print", "input", "breakpoint")
    ]
    assert calls == []


def test_tests_are_imported_by_path() -> None:
    """pytest runs with --import-mode=importlib: a package file would bring name clashes back."""
    assert [path for path in modules("tests") if path.name == "__init__.py"] == []


SLEEPS = {
    "apis/test_fetch.py": 2,
    "benchmarks/test_hotloop.py": 1,
    "cli/test_demo.py": 1,
    "groups/test_any_log.py": 3,
    "groups/test_event_log.py": 2,
    "groups/test_loader.py": 1,
    "groups/test_partition_log.py": 2,
    "observe/test_http_server.py": 1,
    "server/test_collector.py": 1,
    "server/test_loop.py": 1,
    "storage/test_files.py": 1,
    "testing/test_broker.py": 1,
    "testing/test_fault_streams.py": 1,
    "testing/test_time.py": 3,
}
"""Test modules below tests -> calls that sleep for a number of seconds outside of `while`: many in
virtual time, or in tasks that are cancelled. The numbers may only become smaller."""


def sleeps(path: Path) -> int:
    """Count calls of `time.sleep` and `asyncio.sleep` with a number above 0, but in loops that wait
    for a condition.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loops = (each for each in ast.walk(tree) if isinstance(each, ast.While))
    waits = {each for loop in loops for each in ast.walk(loop)}
    return sum(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value > 0
        for node in ast.walk(tree)
        if node not in waits
    )


def test_no_test_sleeps_and_hopes() -> None:
    tests = ROOT / "tests"
    counts = {str(each.relative_to(tests)): sleeps(each) for each in tests.rglob("test_*.py")}
    found = {name: count for name, count in counts.items() if count}
    more = {name: count for name, count in found.items() if count > SLEEPS.get(name, 0)}
    assert not more, f"wait for a condition with a bound instead of sleeping: {more}"
    assert found == SLEEPS, "there are fewer than in SLEEPS: make its numbers smaller"


BARE = re.compile(
    r"""
    (?<![\w.]) (from\ NAME(\.\w+)*\ import | import\ NAME) \b   # also in a program inside a string
    | -m["', ]+ NAME \b
    | ["'] NAME (\.[a-z_]+)+ ["'] (?<!\.md["'])
    """.replace("NAME", "(coordinator|protocol|storage)"),
    re.VERBOSE,
)


def test_our_packages_have_one_name() -> None:
    """By a second name a module is loaded twice, and its classes are not those of the server."""
    users = ROOT / "tests" / "packaging" / "programs"  # they have packages of these names
    files = [ROOT / "Makefile", ROOT / "pyproject.toml", *(ROOT / "docker").rglob("Dockerfile*")]
    files += modules(*PACKAGES, "tests", "benchmarks", "docs", "tools")
    files += [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if users not in path.parents
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BARE.search(line)
    ]
    assert found == []


def pins(lock: str) -> dict[str, set[str]]:
    """Hashes by `name==version`. Every line that is no comment has to be part of a pin."""
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    lines = re.sub(r" *#.*", "", text).replace("\\\n", " ").splitlines()
    found = {}
    for line in filter(None, lines):
        pin, *hashes = line.split()
        assert re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+", pin), line
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), line
        found[pin] = set(hashes)
    return found


@pytest.mark.parametrize("lock", ["server.txt", "build.txt", "dev.txt", "docs.txt"])
def test_locks_name_no_registry_and_pin_everything_with_hashes(lock: str) -> None:
    assert pins(lock)
    assert all(pins(lock).values())


def test_the_locks_agree() -> None:
    """One environment holds them all."""
    dev = {pin.partition("==")[0]: hashes for pin, hashes in pins("dev.txt").items()}
    assert pins("server.txt").items() <= pins("dev.txt").items()
    for pin, hashes in pins("build.txt").items():
        assert dev.get(pin.partition("==")[0], hashes) == hashes


def test_our_wheel_is_built_by_what_is_locked() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = (ROOT / "requirements" / "build.in").read_text(encoding="utf-8")
    assert all(each in asked.split() for each in wanted["build-system"]["requires"])


def test_ci_runs_the_verbs_and_nothing_else() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script[-2:] == ["make check", "make test-all"]
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)


def test_the_workflow_runs_the_verbs_with_pinned_actions_and_may_only_read() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    verbs = re.findall(r"- run: make (\S+) PYTHON=python$", workflow, re.MULTILINE)
    assert verbs == ["check", "docs-site", "test"]
    assert workflow.count("run: ") == len(verbs)
    actions = re.findall(r"uses: (\S+)", workflow)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", action) for action in actions)
    assert re.findall(r"permissions:\n((?: +.+\n)+)", workflow) == ["  contents: read\n"]
    assert workflow.count("timeout-minutes: ") == workflow.count("runs-on: ") == 2


def test_the_workflow_tests_each_python_that_is_supported() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    [matrix] = re.findall(r"python: \[(.+)\]", workflow)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r":: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    assert re.findall(r"[\d.]+", matrix) == named
