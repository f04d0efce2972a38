"""What the generators of pages share: write the page, or with `--check` only compare it."""

import sys
from collections.abc import Callable
from pathlib import Path


def run(page: Path, text: Callable[[], str]) -> int:
    """Exit code 1 when the page is not what would be written."""
    if "--check" not in sys.argv[1:]:
        page.write_text(text(), encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text():
        print(f"{page.name} is out of date: run `make docs`", file=sys.stderr)
        return 1
    return 0
