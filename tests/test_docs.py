"""The pages for contributors name what exists, and relative links lead somewhere.

Not a test of behaviour: `make check` runs this module by itself.
"""

import ast
import builtins
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from keyword import kwlist
from pathlib import Path

import pytest

from groupkeeper.observe.exposition import COUNTERS
from groupkeeper.settings.table import TABLE

ROOT = Path(__file__).parent.parent
CHECKED = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
"""Pages in which every name in backticks has to exist."""
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
FOREIGN = frozenset(
    {"aiokafka/__init__.py", "groupkeeper.prod.svc", "groupkeeper.prod.svc.cluster.local"}
)
"""Files and names of others."""
PACKAGES = ("coordinator", "protocol", "storage", "groupkeeper")
FOLDERS = (*PACKAGES, "docs", "tests", "benchmarks")
SUFFIXES = (".py", ".md", ".txt", ".toml", ".yaml", ".json", ".in")
ELSEWHERE = frozenset(
    (
        "ARGS",
        "Unreleased",
        "__consumer_offsets",
        "__group_events",
        "fdatasync",
        "flock",
        "group.instance.id",
    )
)
"""Names in backticks that no source file defines."""

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
_EXTRAS = re.compile(r"\bpip install ['\"]?(?:groupkeeper|\.)\[([\w,-]+)\]")
_CALL = re.compile(r"\(.*\)$")
_TEST = re.compile(r"(?:test_|\.\.\._)\w+(?:\.\.\.)?")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def text_of(page: str) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))


# -- what exists -----------------------------------------------------------------------------------


@cache
def sources() -> list[Path]:
    found = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in FOLDERS)
    return [path for path in found if "__pycache__" not in path.parts]


@cache
def files() -> frozenset[str]:
    """Names of all files of the source folders and of the root, without their folders."""
    beside = (path.name for path in ROOT.iterdir() if path.is_file())
    return frozenset(chain(beside, (path.name for path in paths())))


@cache
def names() -> dict[str, set[str]]:
    """What each module, package and class has: functions, classes, constants and attributes."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sources():
        module = path.parent.name if path.name == "__init__.py" else path.stem
        _collect(ast.parse(path.read_text(encoding="utf-8")), found[module], found)
        if path.parent != ROOT:
            found[path.parent.name].add(module)
    return found


def _collect(scope: ast.AST, into: set[str], found: dict[str, set[str]]) -> None:
    for node in ast.iter_child_nodes(scope):
        match node:
            case ast.ClassDef():
                into.add(node.name)
                _collect(node, found[node.name], found)
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                into.add(node.name)
            case ast.Name(id=name, ctx=ast.Store()):
                into.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                into.add(name)
            case ast.MatchValue(value=ast.Constant(value=str(word))):  # commands of transcripts
                into.add(word)
            case ast.Dict(keys=keys):
                texts = (each.value for each in keys if isinstance(each, ast.Constant))
                into.update(text for text in texts if isinstance(text, str))
        _collect(node, into, found)


@cache
def all_names() -> frozenset[str]:
    """Every name, wherever it is defined."""
    return frozenset(chain(names(), *names().values(), dir(builtins), kwlist))


def exists(span: str) -> bool:
    """Whether a name in backticks is that of something; commands and the like always pass."""
    name = _CALL.sub("", span)
    if " " in name or name.startswith(("/", "-")) or name in ELSEWHERE | files() | TABLE.keys():
        return True
    if "/" in name:
        return any((ROOT / base / name).exists() for base in ("", "groupkeeper"))
    if name.endswith(SUFFIXES):
        return False
    if name.startswith("groupkeeper_"):
        return name.removeprefix("groupkeeper_").removesuffix("_total") in COUNTERS
    if name.startswith("groupkeeper."):
        path = ROOT / name.replace(".", "/").rstrip("/…")
        return path.exists() or path.with_suffix(".py").exists()
    return _is_defined(name) if _DOTTED.fullmatch(name) else True


def _is_defined(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    if not owner:
        return last in all_names()
    owner = owner.rpartition(".")[2]  # a module, a class, or an instance named after its class
    return any(last in names().get(each, ()) for each in (owner, owner.capitalize()))


# -- what the pages say ----------------------------------------------------------------------------


def is_there(span: str) -> bool:
    """Whether a file or module of this project exists; True of anything else in backticks."""
    if span in FOREIGN:
        return True
    if _TEST.fullmatch(span):
        pattern = re.compile(re.escape(span).replace(r"\.\.\.", r"\w*"))
        return any(pattern.fullmatch(name) for name in all_names())
    if re.fullmatch(r"[\w/]+\.(py|sql|js|css)", span):
        ends = any(f"/{path.as_posix()}".endswith(f"/{span}") for path in paths())
        return ends or (ROOT / span).exists()
    if not span.startswith("groupkeeper.") or not _DOTTED.fullmatch(span):
        return True
    path = ROOT
    for part in span.split("."):
        path /= part
        if path.with_suffix(".py").exists() or part.startswith("__"):
            return True
        if not path.is_dir():
            return False
    return True


@cache
def paths() -> list[Path]:
    return [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_in_backticks_exist(page: str) -> None:
    missing = sorted(span for span in {*_SPAN.findall(text_of(page))} if not is_there(span))
    assert not missing, f"{page} names what does not exist:\n" + "\n".join(missing)


@pytest.mark.parametrize("page", CHECKED)
def test_every_name_in_backticks_exists(page: str) -> None:
    missing = sorted({span for span in _SPAN.findall(text_of(page)) if not exists(span)})
    assert not missing, f"{page} names what does not exist:\n" + "\n".join(missing)


def test_every_module_of_the_core_is_on_the_map() -> None:
    page = text_of("docs/architecture.md")
    named = {span.rpartition("/")[2] for span in _SPAN.findall(page)}
    missing = sorted({path.name for path in (ROOT / "coordinator").rglob("*.py")} - named)
    missing.remove("__init__.py")
    assert not missing, "docs/architecture.md does not name:\n" + "\n".join(missing)


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in (".github", "benchmarks", "docker", *FOLDERS):
        yield from sorted((ROOT / folder).rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made where the repository is shown."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def dead_links(page: Path) -> Iterator[str]:
    for inline, reference in _LINK.findall(text_of(str(page.relative_to(ROOT)))):
        target, _, anchor = (inline or reference).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        linked = page.parent / target if target else page
        is_line = re.fullmatch(r"L\d+", anchor) is not None
        if not linked.exists() or (anchor and not is_line and anchor not in anchors(linked)):
            yield f"{page.relative_to(ROOT)}: {inline or reference}"


def test_relative_links_lead_to_files_and_headings() -> None:
    dead = [each for page in pages() for each in dead_links(page)]
    assert not dead, "dead links:\n" + "\n".join(dict.fromkeys(dead))


def linked(page: Path) -> set[Path]:
    """The files that a page links to."""
    targets = (inline or reference for inline, reference in _LINK.findall(text_of(str(page))))
    paths = (target.partition("#")[0] for target in targets if "://" not in target)
    return {(page.parent / path).resolve() for path in paths if path}


def test_extras_that_are_installed_exist() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    files = [*(ROOT / page for page in PAGES), *(ROOT / "groupkeeper").rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    found = {name for text in texts for each in _EXTRAS.findall(text) for name in each.split(",")}
    assert {"sasl", "tls"} <= found <= project["optional-dependencies"].keys()


def test_the_index_lists_every_page_once() -> None:
    index = ROOT / "docs" / "index.md"
    listed = _LINK.findall(text_of("docs/index.md"))
    assert len(listed) == len(set(listed))
    missing = {*(ROOT / "docs").rglob("*.md")} - {index, *linked(index)}
    assert sorted(str(path.relative_to(ROOT)) for path in missing) == []


def test_what_the_spark_job_imports_is_promised() -> None:
    """People copy the job: docs/compatibility.md says that what it calls stays."""
    job = ast.parse((ROOT / "groupkeeper" / "analytics" / "job.py").read_text(encoding="utf-8"))
    imports = [each for each in ast.walk(job) if isinstance(each, ast.ImportFrom)]
    ours = {each.name for node in imports for each in node.names}
    promised = set(_SPAN.findall(text_of("docs/compatibility.md")))
    assert ours
    assert ours <= promised
