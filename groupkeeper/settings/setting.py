"""One row of the table of settings: its type, its bounds, and the parsing of its value.

The table is in table.py.
"""

from dataclasses import dataclass, field
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ENVIRONMENT_PREFIX = "GROUPKEEPER_"
COMMAND_VARIABLES = (
    "BOOTSTRAP_SERVER",
    "CONFIG",
    "GROUP",
    "HTTP",
    "HTTP_CA",
    "HTTP_TOKEN_FILE",
    "TIMEOUT",
)
"""Variables with this prefix that commands read (cli/options.py), and a server does not."""

Value = int | bool | float | str


LISTENER_PREFIX = "listener.name."


def key_of(name: str, mechanism: str, attribute: str) -> str:
    """Return the key of a value for a listener."""
    parts = (name, mechanism, attribute.replace("_", "."))
    return LISTENER_PREFIX + ".".join(filter(None, parts))


@dataclass(slots=True)
class Setting:
    """One row of the table."""

    key: str
    """Set by the table."""
    kind: type
    """int, bool, float for a ratio, str for a list of words or any text."""
    default: Value | None
    """None: not set."""
    doc: str
    dev: int | None = None
    """Default under `--dev`, where it differs."""
    low: int = 0
    high: int = 1
    words: tuple[str, ...] = ()
    """The permitted words of a list."""
    single: bool = False
    """A single one of the words instead of a list."""
    form: str = ""
    """The syntax of a text; empty if it is a list of words."""
    secret: bool = False
    """Never shown: not in errors, descriptions and `repr`."""

    @property
    def attribute(self) -> str:
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.attribute.upper()

    @property
    def bounds(self) -> str:
        """The permitted values, in words."""
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
        """Return the typed value. Raises ValueError with a message."""
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
            # float() also accepts digits of other scripts, and underscores between them.
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
        # Every long has at most twenty digits; int() of a longer text would be slow.
        value = int(text) if len(digits) <= 20 else LONG_MAX + 1
        if not self.low <= value <= self.high:
            raise ValueError(f"out of range ({self.low} to {self.high})")
        return value


# Any: like dataclasses.field itself, these stand where a value of the field's type is expected.


def _field(kind: type, default: Value | None, doc: str, **more: Any) -> Any:
    row = Setting("", kind, default, doc, **more)
    return field(default=default, repr=not row.secret, metadata={"row": row})


def whole(
    default: int | None, doc: str, *, low: int = 0, high: int = INT_MAX, dev: int | None = None
) -> Any:
    """A setting that is a whole number. `dev`: its default under `--dev`, where it differs."""
    return _field(int, default, doc, low=low, high=high, dev=dev)


def unlimited(default: int, doc: str) -> Any:
    """A setting that is a limit, with -1 for no limit."""
    return whole(default, doc, low=-1, high=LONG_MAX)


def boolean(default: bool, doc: str) -> Any:
    return _field(bool, default, doc)


def ratio(default: float, doc: str) -> Any:
    """A setting from 0 to 1."""
    return _field(float, default, doc)


def words(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    """A setting that is a list of permitted words, separated by commas."""
    return _field(str, default, doc, words=allowed)


def choice(default: str, allowed: tuple[str, ...], doc: str) -> Any:
    """A setting that is one of some words."""
    return _field(str, default, doc, words=allowed, single=True)


def written(form: str, doc: str, default: str | None = None, *, secret: bool = False) -> Any:
    """A setting that is a text in the syntax its reader expects; not set unless given."""
    return _field(str, default, doc, form=form, secret=secret)
