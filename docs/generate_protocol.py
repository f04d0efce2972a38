"""Writes docs/protocol.md from the message classes; `--check` only compares.

What a field means is the docstring below it, which is read from the source: nothing keeps it at run
time. `MEANINGS` has what is the same in all messages.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from generated import run

from groupkeeper.protocol.message import Field, layout_of
from groupkeeper.protocol.messages import MEANINGS
from groupkeeper.protocol.records import consumer_offsets
from groupkeeper.protocol.registry import APIS, Api
from groupkeeper.protocol.types import ArrayOf, Fixed, Sized, StructOf, WireType

PAGE = Path(__file__).with_name("protocol.md")

HEAD = """\
# Protocol

*Generated from `protocol/messages/` and `protocol/records/` by `make docs`; edit there.*

Groupkeeper speaks Kafka's wire protocol: names, versions, types and defaults are those of Kafka's
own definitions. A server answers the APIs below in the versions served. It advertises them in
ApiVersions; where it advertises more than it serves, the difference is answered with
UNSUPPORTED_VERSION (old librdkafka compresses only for a server that lists Produce version 0).

From its first flexible version on (KIP-482) a message has compact lengths and a tag buffer at the
end of each struct; unknown tags are ignored. Everything else is strict: a length beyond the end,
bytes left over, null where the definition has none, tags out of order or text that is not UTF-8
close the connection.

| API | key | advertised | served | flexible from |
|---|---|---|---|---|
"""

FIELDS = """
`n+` means from version n on, `a.b` a field in each element of `a`; `tag n` is a tagged field, left
out while it holds its default.
"""

RECORDS = """
## Records of the `__consumer_offsets` log

A key is an int16 type and its fields, a value an int16 version and its fields. Key types 0 and 1
are offsets, 2 is a group; other types are recognized and skipped. Values are written in version 3
and read in versions 0 to 4, newer ones as 4 (KIP-915).
"""

TABLE = """
| field | type | versions | default | notes | meaning |
|---|---|---|---|---|---|
"""


@cache
def meanings(cls: type) -> dict[str, str]:
    """What the fields of a message class mean: docstrings below them, or what is so everywhere."""
    found = dict(MEANINGS)
    tree = ast.parse(Path(sys.modules[cls.__module__].__file__ or "").read_text(encoding="utf-8"))
    [body] = [node.body for node in tree.body if getattr(node, "name", "") == cls.__name__]
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(meaning))):
                found[name] = meaning
    return found


def span(low: int, high: int, newest: int) -> str:
    if high >= newest:
        return f"{low}+" if low < newest else str(low)
    return str(low) if low == high else f"{low}-{high}"


def type_name(kind: WireType) -> str:
    match kind:
        case ArrayOf():
            return "[]" + type_name(kind.item)
        case StructOf():
            return layout_of(kind.cls).name
        case Fixed() | Sized():
            return kind.name


def default(field: Field) -> str:
    match field.default:
        case None:
            return "null"
        case bool():
            return str(field.default).lower()
        case bytes():
            return "zero" if field.default else "empty"
        case str():
            return f'"{field.default}"'
        case _:
            return str(field.default)


def remarks(field: Field, since: int, until: int, newest: int) -> str:
    first = max(since, field.nullable_since)
    notes = [] if field.tag is None else [f"tag {field.tag}"]
    if first <= newest and field.nullable_in(first):
        notes.append("nullable" if first == since else f"nullable {span(first, until, newest)}")
    return ", ".join(notes)


def rows(cls: type, newest: int, low: int, high: int, path: str = "") -> Iterator[str]:
    """The fields of a class that versions `low` to `high` of a message have."""
    for field in layout_of(cls).fields:
        name, since, until = path + field.name, max(field.since, low), min(field.until, high)
        cells = (f"`{name}`", type_name(field.type), span(since, until, newest), default(field))
        cells += (remarks(field, since, until, newest), meanings(cls)[field.name])
        yield f"| {' | '.join(cells)} |\n"
        part = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if isinstance(part, StructOf):
            yield from rows(part.cls, newest, since, until, f"{name}.")


def section(cls: type) -> str:
    layout = layout_of(cls)
    what = " ".join((cls.__doc__ or "").split())
    oldest, newest = layout.versions
    versions = f"version {oldest}" if oldest == newest else f"versions {oldest} to {newest}"
    return (
        f"\n### {layout.name}, {versions}\n\n{what}\n"
        + TABLE
        + "".join(rows(cls, newest, oldest, newest))
    )


def api_row(api: Api) -> str:
    advertised, served = (f"{low}-{high}" for low, high in (api.advertised, api.served))
    flexible = "never" if api.flexible is None else api.flexible
    link = f"[{api.name}](#{api.name.lower()})"
    return f"| {link} | {api.key} | {advertised} | {served} | {flexible} |\n"


def page() -> str:
    apis = [APIS[key] for key in sorted(APIS)]
    records = (
        consumer_offsets.OffsetCommitKey,
        consumer_offsets.GroupMetadataKey,
        consumer_offsets.OffsetCommitValue,
        consumer_offsets.GroupMetadataValue,
        consumer_offsets.GroupConfigsKey,
        consumer_offsets.GroupConfigsValue,
    )
    return "".join(
        (
            HEAD,
            *map(api_row, apis),
            FIELDS,
            *(
                f"\n## {a.name}\n" + section(a.request_type) + section(a.response_type)
                for a in apis
            ),
            RECORDS,
            *map(section, records),
        )
    )


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
