"""A request as a tree of the groups, topics and partitions it names. Chosen entries can be removed
and answered separately, while the server handles the rest.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.find_coordinator import KEY_TYPE_GROUP
from groupkeeper.testing.faults.levels import Kind, Level, Named, answer_levels_of, levels_of, named

TopicsById = Mapping[bytes, Any]
"""Topics by topic id. Any: objects with a `name`, of the server or of a test."""

KINDS: Final = frozenset(Kind)

_NO_VALUE: Final = frozenset(
    "base_offset committed_offset high_watermark low_watermark node_id port producer_id "
    "producer_epoch end_offset leader_id".split()
)
"""Fields that are -1 in Kafka's error responses."""


class Wanted(NamedTuple):
    """The conditions of a rule on the names in a request; None matches everything."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    member: str | None = None
    """A member id or instance id."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the conditions that are set."""
        return frozenset(kind for kind in Kind if getattr(self, kind.value) is not None)

    def fits(self, entry: Named, not_named: frozenset[Kind]) -> bool:
        """Whether an entry meets the conditions, ignoring missing names of kinds `not_named`."""
        for kind in self.kinds:
            value, wanted = getattr(entry, kind.value), getattr(self, kind.value)
            if value is None:
                if kind not in not_named:
                    return False
            elif not (wanted in value if kind is Kind.MEMBER else wanted == value):
                return False
        return True


@dataclass(slots=True, eq=False)
class RequestItem:
    """A node of the tree: an item of a request. Any: a message of any class, or an id."""

    item: Any
    names: Named
    below: list["RequestItem"] | None
    """Child items; None: the item has none, or stands for all."""
    not_named: frozenset[Kind]
    """Kinds that the item concerns without naming any, as in a request for all topics."""


# (level of the response, names, source item) -> row; None: no row. Any: items and rows.
Make = Callable[[Level, Named, Any], Any]


def entries_of(request: Any, version: int, topics_by_id: TopicsById) -> RequestItem:
    """Return the root of the request's tree."""
    cls: type = type(request)
    levels = levels_of(cls, version)
    named_above = frozenset(kind for level in levels for kind in level.kinds.values())
    only_answered = frozenset(
        kind
        for level in answer_levels_of(cls, version)
        for kind in level.kinds.values()
        if kind not in named_above
    )

    def entry(item: Any, depth: int, around: Named) -> RequestItem:
        names = named(item, levels[depth], around, topics_by_id)
        if getattr(request, "key_type", KEY_TYPE_GROUP) != KEY_TYPE_GROUP:
            names = Named()
        if depth + 1 == len(levels):
            return RequestItem(item, names, None, only_answered)
        items = _items(request, version, item, levels[depth + 1])
        if items is None:
            deeper = (kind for level in levels[depth + 1 :] for kind in level.kinds.values())
            return RequestItem(item, names, None, only_answered | frozenset(deeper))
        below = [entry(each, depth + 1, names) for each in items]
        return RequestItem(item, names, below, only_answered if below else frozenset())

    return entry(request, 0, Named())


def _items(request: Any, version: int, item: Any, level: Level) -> Iterable[Any] | None:
    assert level.array is not None, "below the request"
    items: Iterable[Any] | None = getattr(item, level.array)
    is_metadata = layout_of(type(request)).key == ApiKey.METADATA
    return None if is_metadata and version == 0 and not items else items


def matches(entry: RequestItem, wanted: Wanted) -> bool:
    """Whether the rule's conditions match the item or anything below it."""
    if entry.below:
        return any(matches(each, wanted) for each in entry.below)
    return wanted.fits(entry.names, entry.not_named)


class SplitRequest:
    """Splits a request into chosen entries, which are answered separately, and the rest."""

    def __init__(self, root: RequestItem, version: int, topics_by_id: TopicsById) -> None:
        self.root, self.topics_by_id = root, topics_by_id
        cls: type = type(root.item)
        self.asked = levels_of(cls, version)
        self.answered = answer_levels_of(cls, version)
        self._chosen: set[RequestItem] = set()
        self._deepest = 0

    def choose(self, depth: int, is_chosen: Callable[[RequestItem], bool]) -> None:
        """Choose among the entries of a level that also exists in the response."""
        self._deepest = depth
        self._chosen = {each for each in self._at(self.root, depth) if is_chosen(each)}

    def _at(self, entry: RequestItem, depth: int) -> Iterator[RequestItem]:
        if depth == 0:
            yield entry
        for each in (entry.below or ()) if depth else ():
            yield from self._at(each, depth - 1)

    @property
    def has_chosen(self) -> bool:
        """Whether any entry was chosen."""
        return bool(self._chosen)

    # -- the request ---------------------------------------------------------------------------

    def rest(self) -> Any | None:
        """Return the request without the chosen entries; None if nothing is left."""
        return self._without(self.root, 0) if self._chosen else self.root.item

    def _without(self, entry: RequestItem, depth: int) -> Any | None:
        if entry in self._chosen:
            return None
        if not entry.below or depth == self._deepest:
            return entry.item
        left = [self._without(each, depth + 1) for each in entry.below]
        array = self.asked[depth + 1].array
        assert array is not None, "below the request"
        kept = [each for each in left if each is not None]
        if not kept:
            return None
        item = copy(entry.item)
        setattr(item, array, kept)
        return item

    # -- the answer ---------------------------------------------------------------------------

    def merged(self, answer: Any | None, make: Make) -> Any:
        """Return the response to the rest (None if there is no rest) with rows from `make` for the
        chosen entries, in request order.
        """
        if self.root in self._chosen:
            return make(self.answered[0], self.root.names, self.root.item)
        if answer is None:
            answer = blank(self.answered[0], self.root.names, self.root.item)
        return self._merged(self.root, answer, 0, make) if self._chosen else answer

    def _merged(self, entry: RequestItem, row: Any, depth: int, make: Make) -> Any:
        level = self.answered[depth + 1]
        assert level.array is not None and entry.below is not None, "below the answer"
        rows: dict[Any, deque[Any]] = defaultdict(deque)
        for each in getattr(row, level.array) or ():
            rows[self._key(each, level)].append(each)
        merged = []
        for each in entry.below:
            found = rows[_key_of(each, level)]
            if each in self._chosen:
                made = make(level, each.names, each.item)
                merged += [] if made is None else [made]
            elif depth + 1 < self._deepest and self._has_chosen(each):
                inner = found.popleft() if found else blank(level, each.names, each.item)
                merged.append(self._merged(each, inner, depth + 1, make))
            elif found:
                merged.append(found.popleft())
        row = copy(row)
        # Leftover rows belong to topics that were deleted in the meantime.
        setattr(row, level.array, [*merged, *(each for some in rows.values() for each in some)])
        return row

    def _has_chosen(self, entry: RequestItem) -> bool:
        return entry in self._chosen or any(map(self._has_chosen, entry.below or ()))

    def _key(self, row: Any, level: Level) -> Any:
        return _key_of(
            RequestItem(row, named(row, level, Named(), self.topics_by_id), None, KINDS), level
        )


class WantedSplit(SplitRequest):
    """A split by a rule's conditions, which may match rows that only the response names."""

    def __init__(
        self,
        root: RequestItem,
        version: int,
        wanted: Wanted,
        topics_by_id: TopicsById,
        *,
        top: bool,
    ) -> None:
        """`top`: without conditions, the error may be that of the whole response."""
        super().__init__(root, version, topics_by_id)
        self._wanted = wanted
        self._depth = self._choose_depth(top)
        deepest = min(self._depth, len(self.asked) - 1)
        deeper = self._depth > deepest
        nameless = not any(level.kinds for level in self.answered[1 : self._depth + 1])
        self.concerns_all = self._depth > 0 and (deeper or nameless)
        """Whether matching rows must be found in the response, since the request names none."""
        if not self.concerns_all:
            self.choose(deepest, lambda entry: matches(entry, wanted))
            self.concerns_all = self._wants_unnamed(root, deepest)

    def _choose_depth(self, top: bool) -> int:
        first = 0
        for kind in self._wanted.kinds:
            at = [
                depth
                for levels in (self.asked, self.answered)
                for depth, level in enumerate(levels)
                if kind in level.kinds.values()
            ]
            first = max(first, min(at, default=0))
        depths = [at for at, level in enumerate(self.answered) if level.has_error]
        fitting = [at for at in depths if at >= first and (at or top or len(depths) == 1)]
        return fitting[0] if fitting else depths[-1]

    def _wants_unnamed(self, entry: RequestItem, depth: int) -> bool:
        if depth == 0:
            return False
        if entry.below is None:
            return matches(entry, self._wanted)
        return any(self._wants_unnamed(each, depth - 1) for each in entry.below)

    @property
    def is_hit(self) -> bool:
        """Whether the rule applies to anything in the request or its response."""
        return bool(self._chosen) or self.concerns_all

    @property
    def is_whole(self) -> bool:
        """Whether the request is chosen as a whole."""
        return self.root in self._chosen

    def merged(self, answer: Any | None, make: Make) -> Any:
        if self.concerns_all and not self.is_whole:
            if answer is None:
                answer = blank(self.answered[0], self.root.names, self.root.item)
            answer = self._overwritten(answer, 0, Named(), make)
        return super().merged(answer, make)

    def _overwritten(self, row: Any, depth: int, around: Named, make: Make) -> Any:
        level = self.answered[depth]
        names = named(row, level, around, self.topics_by_id)
        if depth == self._depth:
            answered = {kind for each in self.answered for kind in each.kinds.values()}
            fits = self._wanted.fits(names, KINDS - answered)
            return make(level, names, row) if fits else row
        array = self.answered[depth + 1].array
        assert array is not None, "below the answer"
        rows = (
            self._overwritten(each, depth + 1, names, make) for each in getattr(row, array) or ()
        )
        row = copy(row)
        setattr(row, array, [each for each in rows if each is not None])
        return row


def _key_of(entry: RequestItem, level: Level) -> Any:
    """Return the key that identifies a row within a level of the response."""
    if "resource_type" in level.fields:
        return entry.item.resource_type, entry.item.resource_name
    kinds = dict.fromkeys(level.kinds.values())
    return tuple(getattr(entry.names, kind.value) for kind in kinds)


def blank(level: Level, names: Named, source: Any) -> Any:
    """Return an otherwise empty response row with the names of a request item or another row."""
    assert level.cls is not None, "answers have no bare ids"
    row = level.cls()
    for name in level.fields & _NO_VALUE:
        setattr(row, name, -1)
    if "records" in level.fields:
        row.records = b""  # librdkafka treats null as a malformed response
    for name, kind in level.kinds.items():
        if name in ("topic_id", "resource_name") or kind is Kind.MEMBER:
            value = getattr(source, name, getattr(row, name))
        else:
            value = getattr(names, kind.value)
            if kind is Kind.TOPIC and _is_unknown_id(source, value):
                value = None
        setattr(row, name, value)
    if "resource_type" in level.fields:
        row.resource_type = source.resource_type
    return row


def _is_unknown_id(source: Any, topic: str) -> bool:
    topic_id: bytes = getattr(source, "topic_id", b"")
    return any(topic_id) and topic_id.hex() == topic
