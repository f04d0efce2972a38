"""Builds the Python source of a function line by line, and compiles it."""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """Source of function definitions. Tracebacks show `name` as the file name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: list[str] = []
        self._depth = 0
        self._scope: dict[str, Any] = {}  # the objects that the generated code names
        self._counts: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block; lines added inside the `with` are its body."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a new variable name."""
        number = self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def refer(self, name: str, value: object) -> str:
        """Bind `name` to `value` in the generated code. Returns the name."""
        assert self._scope.setdefault(name, value) is value, name
        return name

    def cls(self, cls: type) -> str:
        """Bind the name of a class to the class. Returns the name."""
        return self.refer(cls.__name__, cls)

    def packed(self, method: str, codes: str) -> str:
        """Bind a name to `pack` or `unpack_from` of a big-endian struct. Returns the name."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        if name not in self._scope:
            self._scope[name] = getattr(Struct(">" + codes), method)
        return name

    @property
    def text(self) -> str:
        """The source written so far."""
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str) -> Callable[..., Any]:
        """Execute the text and return the function of that name; its `__source__` is the text."""
        text = self.text
        exec(compile(text, self.name, "exec"), self._scope)  # noqa: S102 - the text is our own
        linecache.cache[self.name] = (len(text), None, text.splitlines(keepends=True), self.name)
        compiled: Callable[..., Any] = self._scope[function]
        compiled.__source__ = text  # type: ignore[attr-defined]  # to read the code in a debugger
        return compiled
