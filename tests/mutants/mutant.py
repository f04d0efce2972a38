"""A mutant: one small mistake in a file of the product, and the tests that have to notice it."""

from dataclasses import dataclass
from pathlib import Path


class Misplaced(Exception):
    """A mutant does not fit the file any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """Source text that is replaced by other text."""

    name: str
    """The mistake, in a few words."""
    path: str
    """From the root of the tree."""
    old: str
    """Occurs once in the file."""
    new: str
    killers: tuple[str, ...]
    """Tests, one of which has to fail: node ids of pytest, the fastest first."""

    def apply(self, root: Path) -> None:
        """Change the file in a copy of the tree. Raises Misplaced."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise Misplaced(f"{self.name}: {found} times in {self.path}: {self.old!r}")
        changed = text.replace(self.old, self.new)
        compile(changed, self.path, "exec")
        file.write_text(changed, encoding="utf-8")
