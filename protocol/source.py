"""Python source under construction: lines, the objects their names stand for, and the function they
become.

Used by the two halves of the compiler. What the lines say is decided there, not here.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """A text of function definitions. `name` is shown as the file name in tracebacks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: list[str] = []
        self._depth = 0
        self._scope: dict[str, Any] = {}  # whatever the generated code refers to
        self._counts: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block; what is added inside the `with` is its body."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A variable name not used before."""
        number = self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def refer(self, name: str, value: object) -> str:
        """Let `name` stand for `value` in the generated code."""
        assert self._scope.setdefault(name, value) is value, name
        return name

    def cls(self, cls: type) -> str:
        """The name of a class."""
        return self.refer(cls.__name__, cls)

    def packed(self, method: str, codes: str) -> str:
        """The name of a method (`pack` or `unpack_from`) of a big-endian struct, precompiled."""
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
        compiled.__source__ = text  # type: ignore[attr-defined]  # for people: how to see the code
        return compiled
