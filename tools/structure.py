"""Print the rooms of the product: files and lines, arrows between rooms, floors, cycles.

    python tools/structure.py [TREE [PACKAGE ...]]

A room is an import root, or a package or module directly in it, with the packages below that, as in
the import contracts; a `__main__` module is a room by itself, because it starts what lies above its
folder. An arrow leads from a room to a room that it imports, not for types only; its figure counts
the imports, one for each module and imported module. A room's floor is one above the highest room
that it imports. A cycle is broken at its arrow with the fewest imports, which is printed as leading
upwards.

TREE is another checkout, this one unless given; PACKAGE its import roots, `groupkeeper` unless
given. The exit code is 1 if there is a cycle between rooms or between modules.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import grimp

HERE = Path(__file__).resolve().parent.parent
NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip

Imports = Counter[tuple[str, str]]
"""Importing and imported name, and how many imports that stands for."""


class Lines(NamedTuple):
    """How many lines of a file hold code, and how many only a docstring or a comment."""

    code: int
    doc: int


class Ordered(NamedTuple):
    """Names with their floors, from 0; the cycles; and the arrow at which each was broken."""

    floors: dict[str, int]
    cycles: list[list[str]]
    upward: list[tuple[str, str]]


class Tree:
    """The modules of a checkout and what they import."""

    def __init__(self, root: Path, packages: Collection[str]) -> None:
        self._root = root.resolve()
        sys.path.insert(0, str(self._root))
        try:
            graph = grimp.build_graph(*packages, cache_dir=None, exclude_type_checking_imports=True)
        finally:
            sys.path.remove(str(self._root))
        self.files = {module: self._file(module) for module in graph.modules}
        self.rooms = {module: self._room(module) for module in self.files}
        self.imports = Imports(
            (module, imported)
            for module in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(module))
        )
        self.arrows = Imports()
        for module, imported in self.imports:
            arrow = self.rooms[module], self.rooms[imported]
            if arrow[0] != arrow[1]:
                self.arrows[arrow] += 1

    def _file(self, module: str) -> Path:
        path = self._root.joinpath(*module.split("."))
        return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).resolve()

    def _room(self, module: str) -> str:
        file = self.files[module]
        is_in_root = module.count(".") == 1 and file.stem != "__init__"
        if is_in_root or file.stem == "__main__":
            return file.relative_to(self._root).as_posix()
        folder = file.parent
        for _ in range(module.count(".") - 1 - (file.stem != "__init__")):
            folder = folder.parent
        return folder.relative_to(self._root).as_posix()


def ordered(names: Collection[str], imports: Mapping[tuple[str, str], int]) -> Ordered:
    """Each name above all that it imports, when the weakest arrow of every cycle is left out."""
    left = dict(imports)
    cycles: list[list[str]] = []
    upward: list[tuple[str, str]] = []
    while cycle := _cycle(names, left):
        cycles.append(cycle)
        upward.append(min(pairwise(cycle), key=lambda arrow: left[arrow]))
        del left[upward[-1]]
    floors: dict[str, int] = {}
    needs = _needs(names, left)
    for name in TopologicalSorter(needs).static_order():
        floors[name] = max((floors[each] + 1 for each in needs[name]), default=0)
    return Ordered(floors, cycles, upward)


def _needs(names: Collection[str], imports: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    return {
        name: sorted(imported for importing, imported in imports if importing == name)
        for name in sorted(names)
    }


def _cycle(names: Collection[str], imports: Collection[tuple[str, str]]) -> list[str]:
    """Names that each import the next, the first one again at the end. Empty if none do."""
    try:
        TopologicalSorter(_needs(names, imports)).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]  # each is imported by the next
        return cycle[::-1]
    return []


def lines(source: str) -> Lines:
    """Count without blank lines. A line of code with a comment behind it is code."""
    blank = {number for number, line in enumerate(source.splitlines(), 1) if not line.strip()}
    # Strings that stand alone: docstrings, also those below an attribute.
    doc: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                doc.update(range(node.lineno, end + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            doc.add(token.start[0])
        elif token.type not in NOT_CODE and not (
            token.type == tokenize.STRING and token.start[0] in doc
        ):
            code.update(range(token.start[0], token.end[0] + 1))
    return Lines(len(code), len(doc - code - blank))


def report(tree: Tree, rooms: Ordered, modules: Ordered) -> Iterator[str]:
    """The lines to print."""
    width = max(map(len, rooms.floors))
    yield f"floor  {'room':{width}}  files    code     doc"
    from_the_top = sorted(rooms.floors, key=lambda room: (-rooms.floors[room], room))
    counted = {module: lines(file.read_text("utf-8")) for module, file in tree.files.items()}
    for room in [*from_the_top, ""]:  # the last line has the sums
        inside = [counted[each] for each in tree.files if tree.rooms[each] == room or not room]
        code, doc = (sum(column) for column in zip(*inside, strict=True))
        floor = rooms.floors.get(room, "")
        yield f"{floor:5}  {room:{width}}  {len(inside):5}  {code:6}  {doc:6}"
    yield ""
    yield "arrows"
    for importing in from_the_top:
        targets = [(n, to) for (room, to), n in tree.arrows.items() if room == importing]
        told = ", ".join(f"{to} {n}" for n, to in sorted(targets, key=lambda each: each[1]))
        yield f"  {importing:{width}} -> {told or 'none'}"
    yield ""
    yield f"upward arrows: {len(rooms.upward)}"
    for room, above in rooms.upward:
        yield f"  {room} -> {above}"
        for module, imported in tree.imports:
            if (tree.rooms[module], tree.rooms[imported]) == (room, above):
                yield f"    {module} imports {imported}"
    for what, found in (("rooms", rooms), ("modules", modules)):
        yield f"cycles between {what}: {len(found.cycles)}"
        for cycle in found.cycles:
            yield f"  {' -> '.join(cycle)}"


def main(arguments: list[str]) -> int:
    root, *packages = arguments or [str(HERE)]
    tree = Tree(Path(root), packages or ["groupkeeper"])
    rooms = ordered(set(tree.rooms.values()), tree.arrows)
    modules = ordered(tree.files, tree.imports)
    print(*report(tree, rooms, modules), sep="\n")
    return 1 if rooms.cycles or modules.cycles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
