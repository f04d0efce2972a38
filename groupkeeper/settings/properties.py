"""Java properties files, such as Kafka's `server.properties`.

Comments, continuation lines, the three separators and the escapes of java.util.Properties.
"""

from collections.abc import Iterator

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> list[tuple[str, str]]:
    """The pairs of a file in their order, repeated keys included.

    Raises ValueError when `\\u` is not followed by four hexadecimal digits.
    """
    return [_split(line) for line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, continuations joined."""
    pending: str | None = None
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_SPACE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        # An odd number of backslashes at the end: the last one escapes the line break.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Cut at the first unescaped `=`, `:` or white space, which may surround the sign."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_SPACE)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_SPACE)
    return _unescape(line[:end]), _unescape(value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    pos = 0
    while pos < len(text):
        char = text[pos]
        pos += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[pos : pos + 1]
        pos += 1
        if escaped == "u":
            out.append(_unicode(text[pos : pos + 4]))
            pos += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)


def _unicode(digits: str) -> str:
    if len(digits) < 4 or not all(char in "0123456789abcdefABCDEF" for char in digits):
        raise ValueError(f"\\u must be followed by four hexadecimal digits, not {digits!r}")
    return chr(int(digits, 16))
