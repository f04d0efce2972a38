"""Fault rules: the requests to which a fault is applied, and the count of its hits."""

import asyncio
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, Self, TypedDict

from groupkeeper.coordinator.caller import Link
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.registry import APIS
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import RuleNeverFired, WrongArgument
from groupkeeper.testing.faults.entries import RequestItem, Wanted
from groupkeeper.testing.faults.levels import Kind, answer_levels_of, levels_of
from groupkeeper.testing.host import Host
from groupkeeper.testing.wire.tap import Exchange

CODES: Final = tuple(code.name for code in ErrorCode if code)
API_NAMES: Final[Mapping[str, int]] = {api.name: key for key, api in APIS.items()}

WAIT_S: Final = 20.0
"""Default timeout of `Rule.wait`."""


@dataclass(slots=True, eq=False)
class Hit:
    """A request that a rule matched."""

    exchange: Exchange
    proceed: Callable[[], None]
    """Passes the exchange on to later rules and the server."""
    root: RequestItem
    rule: "Rule"

    @property
    def key(self) -> int:
        """The API key."""
        return self.exchange.key

    @property
    def version(self) -> int:
        return self.exchange.caller.api_version

    @property
    def wanted(self) -> Wanted:
        return self.rule.wanted

    def count(self) -> None:
        """Count a hit of the rule."""
        self.rule.hit()


@dataclass(repr=False)
class Effect:
    """Base class of the faults in `effects.py`. The constructor raises TypeError, ValueError and
    WrongArgument.
    """

    apis: ClassVar[Collection[int] | None] = None
    """Keys of the applicable APIs; None: all. Empty: the effect is not applied to requests."""

    def __post_init__(self) -> None:
        """Check the arguments; None is valid where it is the default."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.init and not (value is None and each.default is None):
                _ARGUMENTS[each.name](value, f"{each.name}=")

    def __repr__(self) -> str:
        """Return the call that makes this effect."""
        given = ((each, getattr(self, each.name)) for each in fields(self) if each.repr)
        words = (f"{each.name}={value!r}" for each, value in given if value != each.default)
        name = re.sub("(?!^)([A-Z])", r"_\1", type(self).__name__).lower()
        return f"{name}({', '.join(words)})"

    def arm(self, rule: "Rule") -> None:
        """Called when a rule is made, on the rule's own copy of the effect. On the caller's thread;
        may wait for the broker. Raises WrongArgument and BrokerDown.
        """

    def disarm(self, rule: "Rule") -> None:
        """Called when the rule is removed. On the caller's thread."""

    def holds(self, link: Link) -> bool:
        """Whether the effect holds a request of the connection until the rule is removed."""
        return False

    def concerns(self, hit: Hit) -> bool:
        """Whether the effect applies to a matching request. On the broker's loop."""
        return True

    def apply(self, hit: Hit) -> None:
        """Apply the effect: call `hit.proceed`, respond, close or do nothing. Calls `hit.count`
        before a client can observe the fault. On the broker's loop.
        """
        raise NotImplementedError


class When(TypedDict, total=False):
    """The keyword arguments of `Broker.fault`: the conditions of a rule."""

    group: str
    topic: str
    partition: int
    member: str
    """Member id or instance id."""
    api: str | Iterable[str]
    """One or more API names, such as "OffsetCommit"."""
    versions: tuple[int, int]
    """First and last request version, inclusive."""
    client_id: str
    nth: int
    """The first matching request that is affected, counted from 1."""
    times: int
    """Maximum number of affected requests; default 1 with `nth`, else unlimited."""
    probability: float
    seed: int
    """Seed for `probability`: the same requests give the same hits."""
    may_miss: bool
    """Whether the rule may end without having fired."""


class Rule:
    """A fault and the requests to which it is applied; made by `Broker.fault`.

    As a context manager, the rule is removed at the end, and must have fired (RuleNeverFired).
    """

    def __init__(self, effect: Effect, when: When, bench: Host, number: int) -> None:
        """Raises WrongArgument, and BrokerDown if the effect needs a running broker."""
        for name in when:
            if name not in When.__annotations__:
                raise WrongArgument(unknown("argument of fault()", name, When.__annotations__))
        given: dict[str, Any] = {name: when.get(name) for name in When.__annotations__}
        self._when = {name: value for name, value in given.items() if value is not None}
        self.wanted = Wanted(*map(given.get, Wanted._fields))
        self.may_miss = bool(when.get("may_miss"))
        self._keys = _keys_of(effect, self.wanted, self._when)
        self._random = Random(self._when.get("seed", 0))  # noqa: S311  # reproducible
        self._most: int | None = self._when.get("times", 1 if "nth" in self._when else None)
        self.bench = bench
        """The broker of the rule."""
        self.number = number
        """The rule's id in the HTTP control API."""
        self._matched = self._begun = self._hits = 0
        self._changed = threading.RLock()  # reentrant: a signal handler may wait, too
        self._waiting: list[tuple[int, Future[None]]] = []
        self.effect = copy(effect)
        self.effect.arm(self)

    def __repr__(self) -> str:
        words = (f"{name}={value!r}" for name, value in self._when.items())
        return f"fault({', '.join([repr(self.effect), *words])})"

    @property
    def hits(self) -> int:
        """Number of faults applied. A fault in a response counts when the response exists."""
        return self._hits

    def wait(self, hits: int = 1, timeout: float = WAIT_S) -> None:
        """Block until the total of hits is reached. Raises TimeoutError after `timeout` seconds."""
        reached, timeout = self._reached(hits), arguments.timeout_of(timeout)
        try:
            reached.result(timeout)
        except TimeoutError:
            raise TimeoutError(self._late(hits, timeout)) from None

    async def fired(self, hits: int = 1, timeout: float = WAIT_S) -> None:  # noqa: ASYNC109
        """Like `wait`, for coroutines."""
        reached, timeout = self._reached(hits), arguments.timeout_of(timeout)
        try:
            await asyncio.wait_for(asyncio.wrap_future(reached), timeout)
        except TimeoutError:
            raise TimeoutError(self._late(hits, timeout)) from None

    def _reached(self, hits: int) -> "Future[None]":
        arguments.whole(hits, "hits=")
        reached: Future[None] = Future()
        with self._changed:
            if self._hits >= hits:
                reached.set_result(None)
            else:
                self._waiting.append((hits, reached))
        return reached

    def _late(self, hits: int, timeout: float) -> str:
        return f"{self!r} fired {self._hits} times in {timeout} s, not {hits}; {self._seen()}"

    def _seen(self) -> str:
        return f"{self._matched} requests matched"

    def remove(self) -> None:
        """Remove the rule; does nothing if it is already removed."""
        self.bench.faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.remove()
        self.bench.faults.forget(self)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise RuleNeverFired if the rule never fired, unless it has `may_miss`."""
        if not self._hits and not self.may_miss:
            raise RuleNeverFired(
                f"{self!r} never fired ({self._seen()}); may_miss=True would allow that"
            )

    # -- on the broker's threads ---------------------------------------------------------------

    def may_fire(self, exchange: Exchange) -> bool:
        """Whether API, version and client match, and fewer than `times` requests were affected."""
        version, client_id = exchange.caller.api_version, exchange.caller.peer.client_id
        first, last = self._when.get("versions", (version, version))
        return (
            exchange.key in self._keys
            and first <= version <= last
            and self._when.get("client_id", client_id) == client_id
            and (self._most is None or self._begun < self._most)
        )

    def fires(self) -> bool:
        """Count a matching request; return whether `nth` and `probability` select it."""
        self._matched += 1
        if self._matched < self._when.get("nth", 0):
            return False
        probability = self._when.get("probability")
        if probability is not None and self._random.random() >= probability:
            return False
        self._begun += 1
        return True

    def hit(self) -> None:
        """Count a hit, and wake waiting tests."""
        with self._changed:
            self._hits += 1
            reached = [future for hits, future in self._waiting if hits <= self._hits]
            self._waiting = [each for each in self._waiting if each[0] > self._hits]
        for future in reached:
            if future.set_running_or_notify_cancel():
                future.set_result(None)


# Any: unchecked arguments of a test.
def _keys_of(effect: Effect, wanted: Wanted, when: Mapping[str, Any]) -> frozenset[int]:
    """Check the conditions, and return the API keys that can match. Raises WrongArgument."""
    for name, value in when.items():
        if name in _CHECKS:
            _CHECKS[name](value, f"{name}=")
    possible = frozenset(APIS) if effect.apis is None else frozenset(effect.apis)
    if not possible:
        if when.keys() - {"may_miss"}:
            raise WrongArgument(f"{effect!r} does not apply to requests: leave out all conditions")
        return possible
    names = arguments.names(when["api"], "api=") if "api" in when else None
    if names == []:
        raise WrongArgument("api= is empty: leave it out for all APIs")
    keys = possible if names is None else frozenset(map(key_of_api, names))
    if not keys <= possible:
        other = ", ".join(APIS[key].name for key in sorted(keys - possible))
        known = ", ".join(APIS[key].name for key in sorted(possible))
        raise WrongArgument(f"{effect!r} applies to {known}, not to {other}")
    for kind in wanted.kinds:
        with_it = frozenset(key for key in keys if kind in _kinds_of(key))
        if not with_it or (names is not None and with_it != keys):
            other = ", ".join(APIS[key].name for key in sorted(keys - with_it))
            raise WrongArgument(f"{other} has no {kind.value}: leave out {kind.value}=")
        keys = with_it
    return keys


def _probability(given: Any, what: str) -> None:
    if not 0 <= arguments.number(given, what) <= 1:
        raise WrongArgument(f"{what}{given} is not between 0 and 1")


def _counts(given: Any, what: str) -> None:
    if arguments.whole(given, what) < 1:
        raise WrongArgument(f"{what}{given}: must be 1 or more")


def _versions(given: Any, what: str) -> None:
    is_pair = isinstance(given, tuple | list) and [*map(type, given)] == [int, int]
    if not is_pair or given[0] > given[1]:
        raise WrongArgument(f"{what}{given}: give the first and the last version")


_CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "group": arguments.text,
    "topic": arguments.text,
    "partition": arguments.whole,
    "member": arguments.text,
    "versions": _versions,
    "client_id": arguments.text,
    "nth": _counts,
    "times": _counts,
    "probability": _probability,
}


def _code(given: Any, what: str) -> None:
    if arguments.text(given, what) not in CODES:
        raise WrongArgument(unknown("error", given, CODES))


def _fraction(given: Any, what: str) -> None:
    if not 0 <= arguments.number(given, what) < 1:
        raise WrongArgument(f"{what}{given} must be at least 0 and less than 1")


_FROM_1: Final = partial(arguments.whole, least=1, most=arguments.MOST)
_ARGUMENTS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "bytes_per_s": _FROM_1,
    "code": _code,
    "count": _FROM_1,
    "handled": arguments.flag,
    "host": arguments.text,
    "keep": _fraction,
    "ms": _FROM_1,
    "node_id": partial(arguments.whole, least=-arguments.MOST, most=arguments.MOST),
    "port": partial(arguments.whole, least=0, most=65535),
    "seconds": arguments.positive,
    "seed": arguments.whole,
}
"""Checks of the arguments of effects."""


def key_of_api(name: str) -> int:
    """Return the key of an API. Raises WrongArgument."""
    if name in API_NAMES:
        return API_NAMES[name]
    raise WrongArgument(unknown("API", name, API_NAMES))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return an error message for an unknown name, with the closest known one."""
    by_small = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_small, 1)
    advice = f"did you mean {by_small[close[0]]!r}?" if close else f"known are {', '.join(known)}"
    return f"{name!r}: no such {what}; {advice}"


def _kinds_of(key: int) -> frozenset[Kind]:
    api = APIS[key]
    return frozenset(
        kind
        for version in range(api.served[0], api.served[1] + 1)
        for levels in (
            levels_of(api.request_type, version),
            answer_levels_of(api.request_type, version),
        )
        for level in levels
        for kind in level.kinds.values()
    )
