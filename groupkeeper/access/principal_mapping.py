"""Names of principals from the subjects of certificates: `ssl.principal.mapping.rules`.

The first rule whose pattern matches the whole subject makes the name; then, as in Java's
`replaceAll`, every match of the pattern in it is replaced.
Source: Kafka's `SslPrincipalMapper`; KIP-371.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

SETTING: Final = "ssl.principal.mapping.rules"
_PART: Final = r"((?:\\.|[^\\/])*)/"
_RULE: Final = re.compile(rf"RULE:{_PART}{_PART}([LU]?)|DEFAULT|", re.DOTALL)
_BETWEEN: Final = re.compile(r"\s*(?:,\s*|$)")
_TEMPLATE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}|([^\\$]+)|(.)", re.DOTALL)


class NoRuleMatches(ValueError):
    """No rule applies to a subject: its owner has no name here."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    template: tuple[str | int, ...]
    """Texts, and numbers of groups."""
    case: str
    """L, U, or nothing."""

    def name_of(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._filled, subject)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()

    def _filled(self, match: re.Match[str]) -> str:
        parts = (each if isinstance(each, str) else match[each] for each in self.template)
        return "".join(part or "" for part in parts)


class PrincipalMapping:
    """The rules of a listener, in their order; `None` stands for DEFAULT, the subject itself."""

    def __init__(self, rules: str) -> None:
        """Parse the rules. Raises ValueError with a message."""
        self._rules: Sequence[_Rule | None] = [*_parsed(rules.strip())]

    def name_of(self, subject: str) -> str:
        """Return the name for the subject of a certificate. Raises NoRuleMatches."""
        for rule in self._rules:
            name = subject if rule is None else rule.name_of(subject)
            if name is not None:
                return name
        raise NoRuleMatches(f"no rule of {SETTING} applies to {subject!r}")


def _parsed(text: str) -> Iterator[_Rule | None]:
    pos = 0
    while pos < len(text):
        found = _RULE.match(text, pos)
        end = _BETWEEN.match(text, found.end()) if found else None
        if found is None or end is None:
            raise ValueError(
                f"{text[pos:]!r} does not begin with DEFAULT or RULE:pattern/replacement/, an L or "
                "U behind it, and a comma or nothing"
            )
        pos = end.end()
        if found[0] == "DEFAULT":
            yield None
        elif found[0]:
            yield _rule(*found.groups())


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r}: {error}") from None
    return _Rule(compiled, tuple(_template(replacement, compiled)), case)


def _template(text: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    """Parse what Java's `Matcher.appendReplacement` reads. A reference to a group that the pattern
    lacks is a text, if it has any group at all.
    """
    for escaped, number, name, plain, odd in _TEMPLATE.findall(text):
        if number:
            yield from _reference(number, pattern.groups)
        elif name:
            if name not in pattern.groupindex:
                raise ValueError(f"the replacement {text!r}: no group {name!r}")
            yield pattern.groupindex[name]
        elif odd:
            raise ValueError(f"the replacement {text!r}: nothing follows {odd!r}")
        else:
            yield escaped or plain


def _reference(digits: str, groups: int) -> Iterator[str | int]:
    """Take as many digits as make the number of a group; the rest is text."""
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    number = int(digits[:size])
    if number <= groups:
        yield number
        yield digits[size:]
    elif groups:
        yield f"${digits}"
    else:
        raise ValueError(f"the replacement has ${digits}, and the pattern no group")
