"""One row of the table of settings: its type, its bounds, and how its value is read.

The table is in table.py.
"""

from dataclasses import dataclass, field
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ENVIRONMENT_PREFIX = "GROUPKEEPER_"

Value = int | bool | float | str


def whole(
    default: int | None, doc: str, *, low: int = 0, high: int = INT_MAX, dev: int | None = None
) -> Any:
    """A setting that is a whole number. `dev`: its default under `--dev`, where it differs."""
    # Any: as dataclasses.field itself, this stands where a value of the field's type is expected.
    about = {"kind": int, "low": low, "high": high, "doc": doc, "dev": dev}
    return field(default=default, metadata=about)


def unlimited(default: int, doc: str) -> Any:
    """A setting that is a limit, and -1 for none."""
    # Any: see `whole`.
    return whole(default, doc, low=-1, high=LONG_MAX)


def boolean(default: bool, doc: str) -> Any:
    """A setting that is true or false."""
    # Any: see `whole`.
    return field(default=default, metadata={"kind": bool, "doc": doc})


def ratio(default: float, doc: str) -> Any:
    """A setting from 0 to 1."""
    # Any: see `whole`.
    return field(default=default, metadata={"kind": float, "doc": doc})


def words(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    """A setting that is a list, of some words, with commas between."""
    # Any: see `whole`.
    return field(default=default, metadata={"kind": str, "words": allowed, "doc": doc})


def choice(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    """A setting that is one of some words."""
    # Any: see `whole`.
    return field(
        default=default, metadata={"kind": str, "words": allowed, "doc": doc, "single": True}
    )


def written(form: str, doc: str) -> Any:
    """A setting that is any text, of the form that its reader expects; not set unless given."""
    # Any: see `whole`.
    return field(default=None, metadata={"kind": str, "doc": doc, "form": form})


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    key: str
    kind: type
    """int, bool, float for a ratio, str for a list of words or any text."""
    default: Value | None
    """None: not set."""
    dev: int | None
    """Default under `--dev`, where it differs."""
    low: int
    high: int
    words: tuple[str, ...]
    """The words that a list may have."""
    doc: str
    single: bool = False
    """Not a list, but one of the words."""
    form: str = ""
    """How a text is written; empty if it is a list of words."""

    @property
    def attribute(self) -> str:
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return ENVIRONMENT_PREFIX + self.attribute.upper()

    @property
    def bounds(self) -> str:
        """The allowed values, in words."""
        if self.kind is bool:
            return "true or false"
        if self.single:
            return ", ".join(self.words)
        if self.form:
            return self.form
        if self.kind is str:
            return f"{', '.join(self.words)}, several with commas between, or nothing"
        if self.high in (INT_MAX, LONG_MAX):
            return f"{self.low} or more"
        return f"{self.low} to {self.high}"

    def read(self, text: str) -> Value:
        """The typed value. Raises ValueError, whose text says what is wrong."""
        text = text.strip()
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError("not true or false")
            return text.lower() == "true"
        if self.form:
            return text
        if self.kind is str:
            return self._list(text)
        return self._ratio(text) if self.kind is float else self._whole(text)

    def _list(self, text: str) -> str:
        items = [item.strip() for item in text.split(",")] if text else []
        if self.single:
            items = [text]
        for item in items:
            if item not in self.words:
                raise ValueError(f"{item!r} is not one of: {', '.join(self.words)}")
        return ",".join(items)

    def _ratio(self, text: str) -> float:
        try:
            # float() also reads digits of other scripts, and with underscores between them.
            value = float(text if text.isascii() and "_" not in text else "")
        except ValueError:
            raise ValueError(f"not a number ({self.bounds})") from None
        if not self.low <= value <= self.high:
            raise ValueError(f"out of range ({self.bounds})")
        return value

    def _whole(self, text: str) -> int:
        digits = text[1:] if text.startswith(("+", "-")) else text
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"not a whole number ({self.bounds})")
        # Every long has at most twenty digits; int() of a longer text would take long.
        value = int(text) if len(digits) <= 20 else LONG_MAX + 1
        if not self.low <= value <= self.high:
            raise ValueError(f"out of range ({self.low} to {self.high})")
        return value
