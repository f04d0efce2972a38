"""The house limits that no linter knows, over every file of the product packages.

Not a test of behaviour: `make check` runs this module by itself.
"""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("lock", ["server.txt", "dev.txt"])
def test_locks_name_no_registry_and_pin_everything(lock: str) -> None:
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert all("==" in line and "://" not in line for line in pins)


def test_the_server_lock_is_part_of_the_development_lock() -> None:
    server, dev = (
        {line.split()[0] for line in (ROOT / "requirements" / lock).open() if "==" in line}
        for lock in ("server.txt", "dev.txt")
    )
    assert server <= dev


def test_ci_runs_the_verbs_and_nothing_else() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script[-2:] == ["make check", "make test"]
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)
