"""The pages show what runs: every block of Python in them is a part of a file in examples/."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": 1, "docs/testing-your-consumers.md": None}
"""And how many blocks of each: other ones of the README need a server that runs."""
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> list[str]:
    """Without indentation that all have in common, and empty lines."""
    return [line for line in dedent(text).splitlines() if line.strip()]


def is_part(block: list[str], source: list[str]) -> bool:
    """Whether the source has these lines one after the other, indented more or as much."""
    for start in range(len(source) - len(block) + 1):
        found = dedent("\n".join(source[start : start + len(block)])).splitlines()
        if found == block:
            return True
    return False


def blocks_of(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))[: PAGES[page]]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_python_is_a_part_of_an_example(page: str) -> None:
    sources = [lines_of(path.read_text(encoding="utf-8")) for path in EXAMPLES]
    blocks = blocks_of(page)
    assert blocks
    for block in blocks:
        lines = lines_of(block)
        assert any(is_part(lines, source) for source in sources), f"no example has:\n{block}"


def test_every_example_is_on_the_page_of_examples() -> None:
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    tests = {path.name for path in EXAMPLES if path.name.startswith("test_")}
    assert tests == set(re.findall(r"\[(test_\w+\.py)\]", page))
