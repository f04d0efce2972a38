"""Incidents of which the cause is known, and what may be told about each: a table.

An incident has its truth twice: in words, and as *pairs* of a code and a probable reason, written
before anything is played. The notation, where pairs are separated by spaces:

    member_left               this code, and no probable reason
    member_left/shutdown      this code with this reason; without one it is only less than is known
    member_left/*             this code, with whatever reason or none
    a|b                       one of several

A code is that of a cause, or the type of an event that is told outside of rebalances.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT, Library
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.stage import Stage
from tests.truth.play import KAFKA_PYTHON

EVERY: Final = (KAFKA_PYTHON, CONFLUENT, AIOKAFKA, JAVA, FRANZ_GO)
"""Clients that join by classic requests."""
ANY: Final = "*"
NONE: Final = "-"
CALM: Final = r"Nothing is wrong(?! if| with the client|: only)"
"""Words that are false of each incident that somebody should look into."""

Pair = tuple[str, str]
"""A code, and a reason: `-` is none, `*` any or none."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened, and what may be told about it."""

    words: str
    needs: tuple[tuple[Pair, ...], ...] = ()
    """Of each, one has to be told; what is missing is not known to the product."""
    may: tuple[Pair, ...] = ()
    """True as well, and need not be told."""
    harm: tuple[str, ...] = ()
    """Patterns of sentences and advice that contradict the truth, or do harm to who follows."""
    finds: str = ""
    """Pattern of a sentence that the report has to have."""

    @property
    def pairs(self) -> frozenset[Pair]:
        return frozenset(pair for each in self.needs for pair in each) | frozenset(self.may)


@dataclass(frozen=True, slots=True)
class Incident:
    """What happens to a group of one client. `source` says who tells of such an incident:
    `owner/name#number` is an issue or pull request on GitHub.
    """

    name: str
    client: Library
    source: str
    truth: Truth
    begin: Callable[[Stage], None]
    stage: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the stage."""

    @property
    def key(self) -> str:
        return f"{self.name}, {self.client.name}"


INCIDENTS: Final[list[Incident]] = []


def pair(text: str) -> Pair:
    """A pair, from its notation."""
    code, _, reason = text.partition("/")
    return code, reason or NONE


def alternatives(text: str) -> tuple[tuple[Pair, ...], ...]:
    """Pairs that are needed, from their notation."""
    return tuple(tuple(pair(each) for each in word.split("|")) for word in text.split())


def truth(words: str, needs: str = "", may: str = "", *harm: str, finds: str = "") -> Truth:
    """The truth, from the notation of its pairs."""
    true = tuple(pair(each) for each in may.split())
    return Truth(" ".join(words.split()), alternatives(needs), true, harm, finds)


Told = Truth | Mapping[str, Truth]


def incident(
    name: str, *clients: Library, source: str, truth: Truth, **stage: Any
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Add an incident for each of these clients."""

    def add(begin: Callable[[Stage], None]) -> Callable[[Stage], None]:
        words = truth.words or " ".join((begin.__doc__ or "").split())
        whole = replace(truth, words=words)
        INCIDENTS.extend(Incident(name, each, source, whole, begin, stage) for each in clients)
        return begin

    return add
